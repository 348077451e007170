"""Code of the registered benchmarks, and the modules through which generic code finds it.

Each benchmark has a folder here and a folder of the same name in `resources/benchmarks`. Its folder here contains only
the modules below that the benchmark needs. Generic code looks these modules up by name and never names a benchmark.

| module, object | contents |
| --- | --- |
| loaders, LOADERS | functions from the records of a source file to items, by name |
| graders, GRADERS | parsers of a reply, by name |
| metrics, METRICS | metrics of this benchmark only, by name |
| baselines, TUTORS | trivial tutors, by name |
| conditions, CONDITIONS | conditions under which a rubric applies to a reply, by name |
| toolkit, MEASURES | measures of a reply from the benchmark's own toolkit, by criterion |
| heuristics, HEURISTICS | word-list heuristics of the grader baselines, by criterion |
| releases, RELEASES | releases of replies with human labels, by name |
| recorded, RECORDED | formats of files with several tutors' replies, by name |
| pairs, PAIR_SOURCES | sources of preference pairs, by name |
| printed, PRINTED | numbers printed in the benchmark's paper |
| section, PAGES | additional pages of the report |
| agreement, AGREEMENT | agreement of judges with people on this run's replies |
| commands, COMMANDS | commands of the benchmark's own rules, and commands for people, by stage |
| planning, PLANNING | part of the plan: inputs and jobs of the benchmark's own rules (`plan.slice_plan`) |
"""

BENCHMARKS = ("mathtutorbench", "mrbench", "kmpbench", "tutorbench")
