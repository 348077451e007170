"""Names of the extensions: plug-in folders that add features other than benchmarks.

An extension has any of these modules. Generic code imports them by name (`core.plugins`).

| module, object | content |
| --- | --- |
| commands, COMMANDS | commands, by stage |
| planning, PLANNING | part of the plan: inputs and parameters of rules, models that the rules call, checks |
| section, PAGES | pages of the report |

The configuration keys of an extension are in `config/settings.py`, its rules in `workflow/rules`.
"""

EXTENSIONS = ("curation",)
