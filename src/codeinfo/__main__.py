"""The command `codeinfo`, also as `python -m codeinfo`."""

import gc


def main() -> None:
    gc.set_threshold(200_000, 20, 20)  # modules and constants live until exit: frequent collections would find nothing
    from codeinfo.shells.cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
