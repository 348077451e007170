"""Code of the registered benchmarks, in modules that generic code imports by name.

Each benchmark has a folder here and a folder with the same name in `resources/benchmarks`. The folder here
contains only the modules below that the benchmark needs. Generic code imports them and never names a benchmark.

| module, object | contents |
| --- | --- |
| loaders, LOADERS | functions that convert the records of a source file to items, by name |
| graders, GRADERS | parsers of replies, by name |
| metrics, METRICS | metrics of this benchmark only, by name |
| baselines, TUTORS | trivial tutors, by name |
| conditions, CONDITIONS | conditions under which a rubric applies to a reply, by name |
| toolkit, MEASURES | measures of replies in the benchmark's own toolkit, by criterion |
| heuristics, HEURISTICS | word-list heuristics of the grader baselines, by criterion |
| releases, RELEASES | releases of replies with human labels, by name |
| recorded, RECORDED | formats of files with several tutors' replies, by name |
| pairs, PAIR_SOURCES | sources of preference pairs, by name |
| printed, PRINTED | numbers from the benchmark's paper |
| measured, MEASURED | functions that compute values for the paper's tables that are not about tutors, by table |
| section, PAGES | additional pages of the report |
| critical, CRITICAL | tags of the items on which a judge's errors distort the task's headline most, by rubric |
| agreement, AGREEMENT | function that returns a judge's agreement with people on this run's replies |
| the folder itself, COMMANDS | commands that the benchmark's own rules run, and commands for people, by stage |
| stage, STAGE | part of the plan: inputs and jobs of the benchmark's own rules (`plan.slice_plan`) |
"""

BENCHMARKS = ("mathtutorbench", "mrbench", "kmpbench", "tutorbench", "safetutors", "prefix_twins")
