"""Commands that write the report."""

COMMANDS = {"Report": ("report:build_report", "report:check_report")}
