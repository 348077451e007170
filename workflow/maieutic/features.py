"""Names of the features: plug-in folders that add stages of their own to the chain, and are no benchmarks.

A feature has any of these modules. Generic code imports them by name (`core.plugins`).

| module, object | content |
| --- | --- |
| commands, COMMANDS | commands, by stage |
| planning, PLANNING | part of the plan: inputs and jobs of its rules, checks (`plan.slice_plan`) |
| section, PAGES | pages of the report |

The configuration keys of a feature are in `config/settings.py`, its rules in `workflow/rules`.
"""

FEATURES = ("curation",)
