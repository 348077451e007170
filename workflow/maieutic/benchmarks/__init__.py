"""The benchmarks, and what their folders plug into the generic code.

A benchmark is a folder here and one of its name in `resources/benchmarks`. Of the modules below it has those that it
needs; generic code asks for them by name and names no benchmark itself.

| module, object | what it adds |
| --- | --- |
| loaders, LOADERS | functions from the records of a source file to items, by name |
| graders, GRADERS | parsers of a reply, by name |
| metrics, METRICS | metrics of its own, by name |
| baselines, TUTORS | trivial tutors, by name |
| conditions, CONDITIONS | when a rubric asks about a reply, by name |
| toolkit, MEASURES | what the benchmark's own toolkit counts of a reply, by criterion |
| heuristics, HEURISTICS | what a floor of graders says by a list of words, by criterion |
| releases, RELEASES | releases of replies that people have labelled, by name |
| recorded, RECORDED | formats of files with several tutors' replies, by name |
| pairs, PAIR_SOURCES | sources of preference pairs, by name |
| printed, PRINTED | the numbers that its paper prints |
| section, PAGES | pages of its own in the report |
"""

BENCHMARKS = ("mathtutorbench", "mrbench", "kmpbench", "tutorbench")
