"""``python -m nsyswrap`` and the console script."""

from nsyswrap.cli import cli


def main() -> None:
    """Run the command line and exit with its code."""
    cli(prog_name="nsyswrap")


if __name__ == "__main__":
    main()
