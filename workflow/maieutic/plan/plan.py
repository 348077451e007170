"""Which graders a run has: what they grade, which tutors share one of their jobs, what people say of them."""

from __future__ import annotations

from functools import cached_property

from maieutic.config.cards import JUDGE, REWARD, Card
from maieutic.config.models import BaselineModel, CriteriaModel, JudgeModel, Model, RewardModel
from maieutic.config.people import TABLE, LabelSet
from maieutic.core.errors import UserError
from maieutic.core.records import Scale
from maieutic.judges.assignments import rubric_for_labels, rubric_of
from maieutic.judges.kinds.win_tie_lose import COMPARISONS
from maieutic.judges.labels import label_source
from maieutic.judges.probes import PROBES
from maieutic.judges.releases import LabelSource
from maieutic.judges.rubrics import LoadedRubric, chosen_rubrics, read_rubric, reworded_of, scales_of
from maieutic.plan.selection import Selection, remembered
from maieutic.rewards.pairs import pair_source
from maieutic.rewards.sources import PairSource

BASELINE_BATCH = "_baselines"  # no model can have this name
Batches = dict[str, list[str]]


def sources_of(model: Model) -> list[str]:
    """The sources of pairs that a reward model was trained on."""
    if not isinstance(model, RewardModel):
        return []
    return sorted({*model.train.pretrain, *model.train.mix} if model.train else model.trained_on)


class Plan(Selection):
    """All that a run selects: tasks and tutors, reward models, classifiers, judges, labels. Every card is read once."""

    # jobs of tutors ---------------------------------------------------------------------------------------------------

    def shards_of(self, tutor: str) -> list[str]:
        """The shards of a tutor's items of a benchmark, as `1-of-4`; none where one job has them all."""
        number = getattr(self.models[tutor], "shards", 1)
        return [f"{place}-of-{number}" for place in range(1, number + 1)] if number > 1 else []

    def sharded(self, *engines: str) -> list[str]:
        """The tutors of some engines whose items are dealt out to several jobs a benchmark."""
        return [name for name in self.with_engine(*engines) if self.shards_of(name)]

    @cached_property
    def packed(self) -> list[str]:
        """The tutors that are asked all benchmarks in one job."""
        if not self.config.servers.pack or len(self.benchmarks) < 2:
            return []
        return [name for name in self.with_engine("vllm") if not self.shards_of(name)]

    def asked_by_benchmark(self, *engines: str) -> list[str]:
        """The tutors of some engines that have one job a benchmark."""
        others = {*self.sharded(*engines), *self.packed}
        return [name for name in self.with_engine(*engines) if name not in others]

    # reward models and classifiers ------------------------------------------------------------------------------------

    @property
    def reward_models(self) -> list[str]:
        """The reward models of a run, and those that are measured only."""
        return [*self.run.reward_models, *self.run.reward_comparisons]

    @property
    def trained_reward_models(self) -> list[str]:
        """The reward models that this run trains."""
        return [name for name in self.reward_models if getattr(self.models[name], "train", None)]

    @property
    def classifiers(self) -> list[str]:
        """The criteria classifiers of a run."""
        return self.run.classifiers

    @property
    def judges_of_pairs(self) -> list[str]:
        """The judges that are measured on the test pairs."""
        return [name for name in self.run.judges if getattr(self.models[name], "pairs", None)]

    @cached_property
    def used_sources(self) -> list[str]:
        """The sources of pairs of a run: what its reward models are trained on, and the test pairs."""
        if not (self.reward_models or self.classifiers or self.judges_of_pairs):
            return []
        trained = (source for name in self.reward_models for source in sources_of(self.models[name]))
        return sorted({*self.preferences, *trained})

    @cached_property
    def preferences(self) -> list[str]:
        """The sets of pairs that graders are checked on, the leading one first."""
        if self.run.preferences is not None:
            return self.run.preferences
        sets = sorted(self.config.preferences.items(), key=lambda pair: pair[1].loader == TABLE)
        return [name for name, entry in sets if entry.default]

    @property
    def leading_pairs(self) -> str:
        """The set of pairs on which lights and the papers' tables rest."""
        return self.preferences[0]

    @property
    def further_pairs(self) -> list[str]:
        """The other sets of pairs."""
        return self.preferences[1:]

    @remembered
    def pair_source(self, source: str) -> PairSource:
        """How a set of pairs is made."""
        return pair_source(source, self.config.preferences.get(source))

    def pair_datasets(self, source: str) -> list[str]:
        """The datasets that pairs are made of; none of a set that is a file of its own."""
        entry = self.config.preferences.get(source)
        return entry.datasets if entry else list(self.pair_source(source).datasets)

    @remembered
    def reward_cards(self, benchmark: str) -> list[Card]:
        """The selected tasks of a benchmark whose replies reward models score."""
        return [loaded.card for loaded in self.benchmarks[benchmark] if REWARD in loaded.card.graders]

    @cached_property
    def rewarded_benchmarks(self) -> list[str]:
        """The benchmarks with such a task."""
        return [benchmark for benchmark in self.benchmarks if self.reward_cards(benchmark)]

    @remembered
    def reward_batches(self, benchmark: str) -> Batches:
        """Which tutors share one load of a reward model's weights, by the batch's name.

        The baselines cannot fail and share one batch, the human reference among them. A tutor that fails holds up its
        own.
        """
        return self.batches_of(self.reward_cards(benchmark), self.run.tutors_per_reward_job)

    def batches_of(self, cards: list[Card], size: int) -> Batches:
        """Tutors that share a job, by the batch's name: the baselines of some cards in one, the others by `size`."""
        named = {name for card in cards for name in card.baselines.named}
        models = self.models
        baselines = [name for name in self.tutors if isinstance(models[name], BaselineModel) and name in named]
        others = [name for name in self.tutors if not isinstance(models[name], BaselineModel)]
        others = [name for name in others if any(self.takes(card, name) for card in cards)]
        batches = {BASELINE_BATCH: baselines}
        for start in range(0, len(others), size):
            members = others[start : start + size]
            batches[members[0] if size == 1 else f"_tutors{start // size}"] = members
        return batches

    def human_reference(self, benchmark: str) -> str:
        """The baseline tutor that a reward model compares replies with: the ceiling of the cards that it scores."""
        return self.reward_cards(benchmark)[0].baselines.ceiling

    # judges -----------------------------------------------------------------------------------------------------------

    def answering(self, name: str) -> str:
        """The entry that answers for another: for a judge the model that it names, for any other entry itself."""
        model = self.models[name]
        return model.model or name if isinstance(model, JudgeModel) else name

    @cached_property
    def panels(self) -> list[str]:
        """The judges that are panels of other judges: they ask nobody."""
        return [name for name in self.run.judges if getattr(self.models.get(name), "judges", None)]

    @cached_property
    def judges_by_words(self) -> list[str]:
        """The judges that are lists of words."""
        return [name for name in self.run.judges if getattr(self.models.get(name), "words", False)]

    @cached_property
    def asked_judges(self) -> list[str]:
        """The judges for which a model answers."""
        return [name for name in self.run.judges if name not in {*self.panels, *self.judges_by_words}]

    def judges_of_card(self, card: Card) -> list[str]:
        """The run's judges that have a rubric for a task; the first one's verdicts head it."""
        if JUDGE not in card.graders:
            return []
        judges = self.judges_of_replies
        return [name for name in judges if chosen_rubrics(self.judge_entry(name).rubrics, card.rubrics)]

    @remembered
    def judge_cards(self, benchmark: str, judge: str | None = None) -> list[Card]:
        """The selected tasks of a benchmark whose replies judges judge, or one judge does."""
        judged = [loaded.card for loaded in self.benchmarks[benchmark] if JUDGE in loaded.card.graders]
        return [card for card in judged if judge is None or judge in self.judges_of_card(card)]

    @remembered
    def judged_benchmarks(self, judge: str | None = None) -> list[str]:
        """The benchmarks with such a task."""
        return [benchmark for benchmark in self.benchmarks if self.judge_cards(benchmark, judge)]

    @remembered
    def compared_benchmarks(self, judge: str | None = None) -> list[str]:
        """The benchmarks with a task whose replies are compared with a reference."""
        judged = {name: self.judge_cards(name, judge) for name in self.benchmarks}
        return [name for name, cards in judged.items() if any(COMPARISONS in card.rubrics for card in cards)]

    @remembered
    def reply_rubrics(self, judge: str, benchmark: str) -> list[str]:
        """The rubrics by which a judge judges the replies to a benchmark."""
        named = [name for card in self.judge_cards(benchmark, judge) for name in card.rubrics]
        return chosen_rubrics(self.judge_entry(judge).rubrics, named)

    @remembered
    def weighted_tasks(self, judge: str, benchmark: str) -> list[str]:
        """The tasks that a judge judges by criteria of the items' own, with weights."""
        entry = self.judge_entry(judge)
        cards = self.judge_cards(benchmark, judge)
        return [card.task for card in cards if rubric_of(judge, entry, card).rubric.rules.weighted]

    @remembered
    def judge_batches(self, benchmark: str) -> Batches:
        """Which tutors share one start of a judge's server, by the batch's name."""
        return self.batches_of(self.judge_cards(benchmark), self.run.tutors_per_judge_job)

    @cached_property
    def packed_judges(self) -> list[str]:
        """The judges that are asked about all benchmarks in one job a batch of tutors."""
        if not self.config.servers.pack or len(self.judged_benchmarks()) < 2:
            return []
        served = self.with_engine("vllm")
        return [name for name in self.run.judges if self.answering(name) in served]

    def benchmarks_of_batch(self, judge: str, batch: str) -> list[str]:
        """The benchmarks to which a judge judges the replies of a batch of tutors."""
        return [name for name in self.judged_benchmarks(judge) if batch in self.judge_batches(name)]

    def judge_batch(self, benchmark: str, tutor: str) -> str | None:
        """The batch that one tutor is in; None where no judge judges it."""
        if benchmark not in self.judged_benchmarks():
            return None
        return next((name for name, tutors in self.judge_batches(benchmark).items() if tutor in tutors), None)

    def judges_of(self, benchmark: str, tutor: str) -> list[str]:
        """The judges of one tutor's replies to a benchmark."""
        if self.judge_batch(benchmark, tutor) is None:
            return []
        return [name for name in self.judges_of_replies if self.reply_rubrics(name, benchmark)]

    @remembered
    def pooled_cards(self, benchmark: str) -> list[Card]:
        """The judged tasks of a benchmark that are scored together."""
        return [card for card in self.judge_cards(benchmark) if card.pool]

    @cached_property
    def pooled_benchmarks(self) -> list[str]:
        """The benchmarks with such tasks."""
        return [benchmark for benchmark in self.benchmarks if self.pooled_cards(benchmark)]

    def pooled_judges(self, benchmark: str) -> list[str]:
        """The judges of the pooled tasks of a benchmark."""
        named = [self.judges_of_card(card) for card in self.pooled_cards(benchmark)]
        return list(dict.fromkeys(name for names in named for name in names))

    def leading_judge(self, benchmark: str) -> str:
        """The judge whose verdicts head the pooled tasks of a benchmark."""
        return self.pooled_judges(benchmark)[0]

    def is_blind(self, judge: str, card: Card) -> bool:
        """Whether a judge judges replies to a task with pictures, and is not shown them."""
        members = self.judge_entry(judge).judges or [judge]
        return card.images and not all(getattr(self.models[self.answering(name)], "images", False) for name in members)

    def unreadable_limit(self, judge: str) -> float:
        """The share of a judge's verdicts that may be unreadable."""
        own = self.judge_entry(judge).max_unreadable
        return self.run.max_unreadable if own is None else own

    def rubric_names(self, judge: str) -> list[str]:
        """Every rubric card that a judge may use."""
        entry = self.judge_entry(judge)
        return [*entry.rubrics, *entry.pairs, *entry.tags]

    # labels of people -------------------------------------------------------------------------------------------------

    @cached_property
    def label_sets(self) -> dict[str, LabelSet]:
        """Every labelled set of the registry, benchmarks' own first: a run file's keys come before a registry's."""
        return dict(sorted(self.config.labels.items(), key=lambda pair: pair[1].loader == TABLE))

    @remembered
    def label_source(self, release: str) -> LabelSource:
        """How a labelled set is read, and what its labels are."""
        entry = self.label_sets[release]
        known = [self.datasets[name].fields for name in entry.datasets if name in self.datasets]
        return label_source(release, entry, [field for fields in known for field in fields])

    @cached_property
    def taxonomies(self) -> list[str]:
        """The sets whose labels reward models and classifiers learn from."""
        return [name for name in self.label_sets if self.label_source(name).taxonomy]

    @property
    def first_release(self) -> str:
        """The set whose labels classifiers learn from and are held back from."""
        if not self.taxonomies:
            raise UserError("labels", "classifiers learn from none of these sets", "keep those of config/datasets.yaml")
        return self.taxonomies[0]

    def rubric_on(self, judge: str, release: str) -> LoadedRubric | None:
        """The rubric by which a judge is checked on a labelled set."""
        return rubric_for_labels(self.judge_entry(judge), self.label_source(release).about)

    @cached_property
    def chosen_releases(self) -> list[str]:
        """The labelled sets that the run names; where it names none, those that its judges and its tasks fit."""
        if self.run.labels is not None:
            return self.run.labels
        asked = {loaded.card.dataset for loaded in self.cards.values()}  # people's tables stand beside such a task

        def fits(name: str, entry: LabelSet) -> bool:
            asks_it = name in self.taxonomies and not asked.isdisjoint(entry.datasets)
            return asks_it or any(self.rubric_on(judge, name) for judge in self.run.judges)

        return [name for name, entry in self.label_sets.items() if entry.default and fits(name, entry)]

    @cached_property
    def releases(self) -> list[str]:
        """Every labelled release that this run reads: what it names, and what its graders are checked on besides."""
        wanted = {*self.chosen_releases, *self.run.predictions}
        if self.reward_models:
            wanted.add(self.reward_release)
        if self.classifiers:
            wanted.add(self.first_release)
        return [name for name in self.label_sets if name in wanted]

    @property
    def reward_release(self) -> str:
        """The release whose labels reward models are compared with: the run's first of MRBench's dimensions."""
        return next((name for name in self.chosen_releases if name in self.taxonomies), None) or self.first_release

    @remembered
    def label_datasets(self, release: str) -> list[str]:
        """The datasets of a release that this edition has: the demo has one of several."""
        names = list(self.label_sets[release].datasets)
        if self.edition == "published":
            return names
        known = self.datasets
        return [name for name in names if (dataset := known.get(name)) and dataset.demo is not None] or names[:1]

    @remembered
    def releases_for(self, grader: str) -> list[str]:
        """The labelled releases that speak for a grader: those that a judge has a rubric for, the first one first.

        For classifiers it is the one that they learn from; for reward models one of MRBench's dimensions.
        """
        model = self.models[grader]
        if isinstance(model, CriteriaModel):
            return [self.first_release]
        if isinstance(model, JudgeModel):
            return [name for name in self.chosen_releases if self.rubric_on(grader, name)]
        return [self.reward_release]

    def taxonomy_release(self, grader: str) -> str | None:
        """The first release of MRBench's dimensions that speaks for a grader."""
        return next((name for name in self.releases_for(grader) if name in self.taxonomies), None)

    @remembered
    def predicted_releases(self, judge: str) -> list[str]:
        """The releases without labels that a judge predicts."""
        return [name for name in self.run.predictions if self.rubric_on(judge, name)]

    def told_releases(self, judge: str) -> list[str]:
        """The releases whose replies one judge is asked about: those it is checked on, and those it predicts."""
        return [*self.releases_for(judge), *self.predicted_releases(judge)]

    def label_rubrics(self, judge: str) -> list[str]:
        """The rubrics by which a judge is checked on the labelled releases, and predicts others."""
        loaded = [self.rubric_on(judge, name) for name in self.told_releases(judge)]
        return list(dict.fromkeys(rubric.name for rubric in loaded if rubric))

    @cached_property
    def people_rubrics(self) -> dict[str, list[str]]:
        """By judged task the rubrics by which people may label its replies: what its card takes, and what follows."""
        rubrics: dict[str, list[str]] = {}
        for benchmark in self.benchmarks:
            for card in self.judge_cards(benchmark):
                own = [name for judge in self.judges_of_card(card) for name in self.judge_entry(judge).rubrics]
                names = [*card.rubrics, *chosen_rubrics(own, card.rubrics)]
                further = [read_rubric(name).rubric.follow_up for name in names]
                rubrics[card.task] = list(dict.fromkeys([*names, *(more.rubric for more in further if more)]))
        return rubrics

    @cached_property
    def people_scales(self) -> dict[str, dict[str, Scale]]:
        """By judged task what people may say of a reply, criterion by criterion."""
        return {
            task: {key: scale for name in names for key, scale in scales_of(read_rubric(name).rubric).items()}
            for task, names in self.people_rubrics.items()
        }

    @cached_property
    def own_criteria(self) -> list[str]:
        """The judged tasks whose items bring criteria of their own."""
        rules = {task: [read_rubric(name).rubric for name in names] for task, names in self.people_rubrics.items()}
        return [task for task, rubrics in rules.items() if any(rubric.rules.weighted for rubric in rubrics)]

    @remembered
    def labelled_by(self, judge: str) -> dict[str, list[str]]:
        """By rubric with labels of its own the tasks whose replies a judge judges by it: people label them likewise."""
        tasks: dict[str, list[str]] = {}
        for benchmark in self.judged_benchmarks(judge):
            for card in self.judge_cards(benchmark, judge):
                loaded = rubric_of(judge, self.judge_entry(judge), card)
                further = loaded.rubric.follow_up
                for one in (loaded, *([read_rubric(further.rubric)] if further else [])):
                    if one.rubric.criteria and not one.rubric.about_tutor:
                        tasks.setdefault(one.name, []).append(card.task)
        return tasks

    @property
    def probes(self) -> list[str]:
        """How judges are probed in this run, by the probes' names."""
        return list(PROBES) if self.run.probes else []

    @remembered
    def wordings(self, judge: str) -> list[str]:
        """The cards of other wordings that a judge is probed with."""
        return [name for rubric in self.label_rubrics(judge) for name in reworded_of(rubric)] if self.probes else []

    @cached_property
    def probed_judges(self) -> list[str]:
        """The judges that are probed, or whose family people have labelled."""
        return [
            name
            for name in self.asked_judges
            if self.releases_for(name) and (self.run.probes or self.judge_entry(name).family)
        ]

    def label_limit(self, judge: str) -> int | None:
        """How many labelled replies of each release, and pairs, a judge is checked on; None: all."""
        if members := self.judge_entry(judge).judges:
            return min(filter(None, (self.label_limit(name) for name in members)), default=None)
        return self.judge_entry(judge).label_limit or self.run.label_limit

    # what a run uses of the registries --------------------------------------------------------------------------------

    @cached_property
    def used_models(self) -> list[str]:
        """Every registry entry that a run needs: tutors, graders, the bases that they are trained on, what answers."""
        graders = [*self.reward_models, *self.classifiers]
        trains = [getattr(self.models[name], "train", None) for name in graders]
        bases = [train.base for train in trains if train]
        judges = [*self.run.judges, *self.run.taggers]
        answering = [self.answering(name) for name in judges]
        return list(dict.fromkeys([*self.tutors, *graders, *bases, *judges, *answering, *self.run.encoders]))

    @cached_property
    def pictured_datasets(self) -> list[str]:
        """The datasets whose pictures a run needs."""
        return sorted({loaded.card.dataset for loaded in self.cards.values() if loaded.card.images})

    @cached_property
    def used_datasets(self) -> list[str]:
        """Every source file that a run needs."""
        datasets = {loaded.card.dataset for loaded in self.cards.values()}
        datasets |= {dataset for source in self.used_sources for dataset in self.pair_datasets(source)}
        datasets |= {dataset for release in self.releases for dataset in self.label_datasets(release)}
        return sorted(datasets)
