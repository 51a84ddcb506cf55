"""The commands, one module per command. `budgetron.cli` lists them and imports a module when its command is called."""
