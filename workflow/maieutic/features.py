"""Names of the stages, and of the features: folders that bring commands, rules and a part of the plan.

The stages exist in every run, in the order of the data. A feature is a plug-in folder that is not a benchmark and adds
stages of its own. Generic code imports the following modules of these folders by name (`core.plugins`).

| module, object | content |
| --- | --- |
| the folder itself, COMMANDS | commands, by stage |
| stage, STAGE | part of the plan: inputs and jobs of the folder's rules, and checks (`plan.slice_plan`) |
| section, PAGES | pages of the report; only of features |

The configuration keys of a feature are in `config/settings.py`, and all rules are in `workflow/rules`.
"""

STAGES = ("preparation", "replies", "rewards", "judges", "scores", "validation", "launch", "report")
FEATURES = ("curation", "transcripts", "simulation")
