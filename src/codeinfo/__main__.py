"""The command `codeinfo`, also as `python -m codeinfo`."""

import gc


def main() -> None:
    gc.set_threshold(200_000, 20, 20)  # objects made while loading stay: collecting them finds nothing
    from codeinfo.shells.cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
