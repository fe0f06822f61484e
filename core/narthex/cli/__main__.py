"""`python -m narthex.cli`: the command line."""

from narthex.cli import main

if __name__ == "__main__":
    main()
