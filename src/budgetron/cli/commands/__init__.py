"""The commands, one module each. `budgetron.cli` lists them, and imports a module only when its command is called."""
