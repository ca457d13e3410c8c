# A Homebrew formula: fill in the address and the hash of the sdist that `make release` printed, then run
# `brew update-python-resources codeinfo` for the dependencies.
class Codeinfo < Formula
  include Language::Python::Virtualenv

  desc "Context engine for codebases and documents that runs on your own machine"
  homepage "HOMEPAGE"
  url "SDIST_ADDRESS"
  sha256 "SDIST_SHA256"
  license "MIT"

  depends_on "python@3.12"

  def install
    virtualenv_install_with_resources
  end

  test do
    (testpath/"greet.py").write "def greet():\n    return 'hello'\n"
    assert_match "greet.py", shell_output("#{bin}/codeinfo search greet #{testpath}")
  end
end
