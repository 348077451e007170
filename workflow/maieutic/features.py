"""Names of the features: plug-in folders that are not benchmarks and add stages to the workflow.

A feature has one or more of the following modules, which generic code imports by name (`core.plugins`).

| module, object | content |
| --- | --- |
| commands, COMMANDS | commands, by stage |
| planning, PLANNING | part of the plan: inputs and jobs of the feature's rules, and checks (`plan.slice_plan`) |
| section, PAGES | pages of the report |

The configuration keys of a feature are in `config/settings.py`, and its rules are in `workflow/rules`.
"""

FEATURES = ("curation",)
