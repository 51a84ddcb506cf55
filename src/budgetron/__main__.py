"""`python -m budgetron` is the command line."""

from budgetron.cli import main

if __name__ == "__main__":
    main(prog_name="budgetron")
