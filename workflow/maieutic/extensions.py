"""What a run can do beside benchmarking: folders of the package that plug into the generic code, as benchmarks do.

Of these modules a folder has those that it needs; generic code asks for them by name (`core.plugins`).

| module, object | what it adds |
| --- | --- |
| commands, COMMANDS | its commands, by stage |
| planning, PLANNING | its part of the plan: what its rules read and are told, which models they ask, its checks |
| section, PAGES | its pages of the report |

Its keys of the configuration stand in `config/settings.py`, its rules in `workflow/rules`.
"""

EXTENSIONS = ("curation",)
