"""Run the command line as `python -m simaccel`."""

from simaccel.cli import main

if __name__ == "__main__":
    main()
