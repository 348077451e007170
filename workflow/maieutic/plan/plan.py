"""Graders of a run: the tasks that they grade, the tutors that share a job, and the labels that validate them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from maieutic.config.cards import JUDGE, REWARD, Card
from maieutic.config.models import BaselineModel, CriteriaModel, JudgeModel, Model, Needs, RecordedModel, RewardModel
from maieutic.config.people import TABLE_LOADER, LabelSet
from maieutic.config.rubrics import (
    LoadedRubric,
    alternative_wording,
    annotation_scales,
    chosen_rubrics,
    read_rubric,
    rubric_for_card,
)
from maieutic.core.errors import UserError
from maieutic.core.records import Scale
from maieutic.datasets.labelled_sets import label_source, rubric_for_labels
from maieutic.datasets.pair_sources import PairSource
from maieutic.datasets.pairs import pair_source
from maieutic.datasets.releases import LabelSource
from maieutic.plan.selection import Selection, cached_method

BASELINE_BATCH = "_baselines"  # name of the baselines' batch; no registry entry can have this name
Batches = dict[str, list[str]]


def training_pair_sources(model: Model) -> list[str]:
    """Return the pair sources that a reward model is trained on; empty for any other entry."""
    if not isinstance(model, RewardModel):
        return []
    return sorted({*model.train.pretrain, *model.train.mix} if model.train else model.trained_on)


class Plan(Selection):
    """Selection of a run: tasks, tutors, reward models, classifiers, judges and labels. Each card is read only once.

    slices: parts of the plan that features and benchmarks add (`SlicePlan`).
    """

    slices: tuple[Any, ...] = ()

    # jobs of tutors ---------------------------------------------------------------------------------------------------

    def shards_of(self, tutor: str) -> list[str]:
        """Return the names of a tutor's shards, such as `1-of-4`; empty if its items are not split."""
        number = getattr(self.models[tutor], "shards", 1)
        return [f"{place}-of-{number}" for place in range(1, number + 1)] if number > 1 else []

    def sharded_tutors(self, *engines: str) -> list[str]:
        """Return the tutors with one of these engines whose items are split into several jobs per benchmark."""
        return [name for name in self.with_engine(*engines) if self.shards_of(name)]

    def tutors_per_benchmark_job(self, *engines: str) -> list[str]:
        """Return the tutors with one of these engines that use one job per benchmark."""
        return [name for name in self.with_engine(*engines) if not self.shards_of(name)]

    # reward models and classifiers ------------------------------------------------------------------------------------

    @property
    def reward_models(self) -> list[str]:
        """The run's reward models, followed by those that are only validated on pairs."""
        return [*self.run.reward_models, *self.run.reward_comparisons]

    @property
    def trained_reward_models(self) -> list[str]:
        """The reward models that this run trains."""
        return [name for name in self.reward_models if getattr(self.models[name], "train", None)]

    @property
    def chooses_reward_model(self) -> bool:
        """True if the run chooses its leading reward model by accuracy on pairs."""
        return self.run.leading_reward_model == "best" and len(self.run.reward_models) > 1

    @property
    def chooses_judge(self) -> bool:
        """True if the run chooses its leading judge by people's labels of its replies."""
        return self.run.leading_judge == "best" and len(self.judges_of_replies) > 1 and bool(self.run.human_labels)

    @property
    def models_with_published_scores(self) -> list[str]:
        """The reward models whose scores are compared with published ones."""
        return [name for name in self.reward_models if getattr(self.models[name], "published_scores", None)]

    @property
    def classifiers(self) -> list[str]:
        """The criteria classifiers of a run."""
        return self.run.classifiers

    @property
    def judges_of_pairs(self) -> list[str]:
        """The judges that are validated on the test pairs."""
        return [name for name in self.run.judges if getattr(self.models[name], "pairs", None)]

    @cached_property
    def used_sources(self) -> list[str]:
        """The pair sources that a run uses: named ones, training data of its reward models, and the test pairs."""
        named = self.run.pair_sources
        if not (self.reward_models or self.classifiers or self.judges_of_pairs):
            return sorted(named)
        trained = (source for name in self.reward_models for source in training_pair_sources(self.models[name]))
        return sorted({*named, *self.preferences, *trained})

    @cached_property
    def preferences(self) -> list[str]:
        """The sets of test pairs that graders are validated on, the leading one first."""
        if self.run.preferences is not None:
            return self.run.preferences
        sets = sorted(self.config.preferences.items(), key=lambda pair: pair[1].loader == TABLE_LOADER)
        return [name for name, entry in sets if entry.default]

    @property
    def leading_pairs(self) -> str:
        """The set of test pairs on which the traffic lights and the comparison with the papers' tables are based."""
        return self.preferences[0]

    @property
    def further_pairs(self) -> list[str]:
        """All test sets of pairs except the leading one."""
        return self.preferences[1:]

    @cached_method
    def pair_source(self, source: str) -> PairSource:
        """Return the loader of a set of pairs."""
        return pair_source(source, self.config.preferences.get(source))

    def pair_datasets(self, source: str) -> list[str]:
        """Return the datasets that a set of pairs is built from; empty for a set that is read from a user's file."""
        entry = self.config.preferences.get(source)
        return entry.datasets if entry else list(self.pair_source(source).datasets)

    @cached_method
    def reward_cards(self, benchmark: str) -> list[Card]:
        """Return the selected cards of a benchmark whose replies are scored by reward models."""
        return [loaded.card for loaded in self.benchmarks[benchmark] if REWARD in loaded.card.graders]

    @cached_property
    def rewarded_benchmarks(self) -> list[str]:
        """The benchmarks with at least one task whose replies are scored by reward models."""
        return [benchmark for benchmark in self.benchmarks if self.reward_cards(benchmark)]

    @cached_method
    def reward_batches(self, benchmark: str) -> Batches:
        """Return the tutors of each batch, by the batch's name. A reward model loads its weights once per batch.

        A tutor that fails delays only its own batch. All baselines, including the human reference, are in one batch,
        since they cannot fail.
        """
        return self.batches_of(self.reward_cards(benchmark), self.run.tutors_per_reward_job)

    def batches_of(self, cards: list[Card], size: int) -> Batches:
        """Return the tutors of each batch, by the batch's name. The tutors of a batch share a job.

        One batch contains all baselines of the cards. Each other batch contains at most `size` tutors.
        """
        named = {name for card in cards for name in card.baselines.named}
        models = self.models
        baselines = [name for name in self.tutors if isinstance(models[name], BaselineModel) and name in named]
        others = [name for name in self.tutors if not isinstance(models[name], BaselineModel)]
        others = [name for name in others if any(self.can_answer(card, name) for card in cards)]
        batches = {BASELINE_BATCH: baselines} if baselines else {}
        for start in range(0, len(others), size):
            members = others[start : start + size]
            batches[members[0] if size == 1 else f"_tutors{start // size}"] = members
        return batches

    def human_reference(self, benchmark: str) -> str:
        """Return the baseline with which reward models compare replies: the ceiling baseline of a benchmark's cards."""
        ceiling = self.reward_cards(benchmark)[0].baselines.ceiling
        assert ceiling is not None  # checked in `config.cards.check_headline`
        return ceiling

    # judges -----------------------------------------------------------------------------------------------------------

    def answering_entry(self, name: str) -> str:
        """Return the entry that answers requests to `name`: a judge's model, or `name` itself if it is no judge."""
        model = self.models[name]
        return model.model or name if isinstance(model, JudgeModel) else name

    @cached_property
    def panels(self) -> list[str]:
        """The judges that are panels of other judges, and call no model themselves."""
        return [name for name in self.run.judges if getattr(self.models.get(name), "judges", None)]

    @cached_property
    def word_list_judges(self) -> list[str]:
        """The judges that apply word lists."""
        return [name for name in self.run.judges if getattr(self.models.get(name), "words", False)]

    @cached_property
    def judges_with_model(self) -> list[str]:
        """The judges that call a model."""
        return [name for name in self.run.judges if name not in {*self.panels, *self.word_list_judges}]

    def judges_of_card(self, card: Card) -> list[str]:
        """Return the judges with a rubric for a task. The first judge's verdicts determine the headline score."""
        if JUDGE not in card.graders:
            return []
        judges = self.judges_of_replies
        return [name for name in judges if chosen_rubrics(self.judge_entry(name).rubrics, card.rubrics)]

    @cached_method
    def judge_cards(self, benchmark: str, judge: str | None = None) -> list[Card]:
        """Return the selected cards of a benchmark whose replies a judge judges. judge: None for any judge."""
        judged = [loaded.card for loaded in self.benchmarks[benchmark] if JUDGE in loaded.card.graders]
        return [card for card in judged if judge is None or judge in self.judges_of_card(card)]

    @cached_method
    def judged_benchmarks(self, judge: str | None = None) -> list[str]:
        """Return the benchmarks with a task whose replies a judge judges. judge: None for any judge."""
        return [benchmark for benchmark in self.benchmarks if self.judge_cards(benchmark, judge)]

    @cached_method
    def reply_rubrics(self, judge: str, benchmark: str) -> list[str]:
        """Return the rubrics by which a judge judges the replies to a benchmark."""
        named = [name for card in self.judge_cards(benchmark, judge) for name in card.rubrics]
        return chosen_rubrics(self.judge_entry(judge).rubrics, named)

    @cached_method
    def weighted_tasks(self, judge: str, benchmark: str) -> list[str]:
        """Return the tasks of a benchmark that a judge judges by each item's own weighted criteria."""
        entry = self.judge_entry(judge)
        cards = self.judge_cards(benchmark, judge)
        return [card.task for card in cards if rubric_for_card(judge, entry, card).rubric.rules.weighted]

    @cached_method
    def judge_batches(self, benchmark: str) -> Batches:
        """Return the tutors of each batch, by the batch's name. A judge's server starts once per batch."""
        return self.batches_of(self.judge_cards(benchmark), self.run.tutors_per_judge_job)

    def judge_batch(self, benchmark: str, tutor: str) -> str | None:
        """Return the batch of a tutor; None if its replies to the benchmark are not judged."""
        if benchmark not in self.judged_benchmarks():
            return None
        return next((name for name, tutors in self.judge_batches(benchmark).items() if tutor in tutors), None)

    def judges_of(self, benchmark: str, tutor: str) -> list[str]:
        """Return the judges of one tutor's replies to a benchmark."""
        if self.judge_batch(benchmark, tutor) is None:
            return []
        return [name for name in self.judges_of_replies if self.reply_rubrics(name, benchmark)]

    @cached_method
    def pooled_cards(self, benchmark: str) -> list[Card]:
        """Return the cards of a benchmark's judged tasks that are scored together."""
        return [card for card in self.judge_cards(benchmark) if card.pool]

    @cached_property
    def pooled_benchmarks(self) -> list[str]:
        """The benchmarks with judged tasks that are scored together."""
        return [benchmark for benchmark in self.benchmarks if self.pooled_cards(benchmark)]

    def pooled_judges(self, benchmark: str) -> list[str]:
        """Return the judges of the pooled tasks of a benchmark."""
        named = [self.judges_of_card(card) for card in self.pooled_cards(benchmark)]
        return list(dict.fromkeys(name for names in named for name in names))

    def leading_judge(self, benchmark: str) -> str:
        """Return the judge whose verdicts determine the headline score of a benchmark's pooled tasks."""
        return self.pooled_judges(benchmark)[0]

    def is_blind(self, judge: str, card: Card) -> bool:
        """Return True if a task has pictures but a judge of its replies, alone or in a panel, is not shown them."""
        members = self.judge_entry(judge).judges or [judge]
        return card.images and not all(
            getattr(self.models[self.answering_entry(name)], "images", False) for name in members
        )

    def unreadable_limit(self, judge: str) -> float:
        """Return the largest share of missing verdicts that a run accepts from a judge."""
        limit = self.judge_entry(judge).max_unreadable
        return self.run.max_unreadable if limit is None else limit

    def rubric_names(self, judge: str) -> list[str]:
        """Return the names of all rubric cards that a judge may use."""
        entry = self.judge_entry(judge)
        return [*entry.rubrics, *entry.pairs, *entry.tags]

    # human labels -----------------------------------------------------------------------------------------------------

    @cached_property
    def label_sets(self) -> dict[str, LabelSet]:
        """The labelled sets, with users' sets at the end: merging configurations puts the keys of run files first."""
        return dict(sorted(self.config.labels.items(), key=lambda pair: pair[1].loader == TABLE_LOADER))

    @cached_method
    def label_source(self, release: str) -> LabelSource:
        """Return the loader of a labelled set, together with the scales of its labels."""
        entry = self.label_sets[release]
        known = [self.datasets[name].fields for name in entry.datasets if name in self.datasets]
        return label_source(release, entry, [field for fields in known for field in fields])

    @cached_property
    def taxonomy_releases(self) -> list[str]:
        """The labelled sets with MRBench's dimensions, which can train reward models and classifiers."""
        return [name for name in self.label_sets if self.label_source(name).taxonomy]

    @property
    def classifier_release(self) -> str:
        """The labelled set on which classifiers are trained, and whose held-out part validates them."""
        if not self.taxonomy_releases:
            problem = "expected a labelled set for training classifiers, found none"
            raise UserError("labels", problem, "restore the labelled sets of resources/registries/datasets.yaml")
        return self.taxonomy_releases[0]

    def rubric_for_release(self, judge: str, release: str) -> LoadedRubric | None:
        """Return the rubric by which a judge is validated on a labelled set; None if no rubric of the judge fits."""
        return rubric_for_labels(self.judge_entry(judge), self.label_source(release).about)

    @cached_property
    def chosen_releases(self) -> list[str]:
        """The labelled sets that the run names, or by default those that suit its judges and tasks."""
        if self.run.labels is not None:
            return self.run.labels
        datasets = {loaded.card.dataset for loaded in self.cards.values()}

        def fits(name: str, entry: LabelSet) -> bool:
            # If a task uses a set's dataset, the report shows the set's human labels beside the task's scores.
            on_dataset = name in self.taxonomy_releases and not datasets.isdisjoint(entry.datasets)
            return on_dataset or any(self.rubric_for_release(judge, name) for judge in self.run.judges)

        return [name for name, entry in self.label_sets.items() if entry.default and fits(name, entry)]

    @cached_property
    def releases(self) -> list[str]:
        """The releases that a run reads: chosen ones, those to predict, and those that validate its graders."""
        chosen = {*self.chosen_releases, *self.run.predictions}
        if self.reward_models:
            chosen.add(self.reward_release)
        if self.classifiers:
            chosen.add(self.classifier_release)
        return [name for name in self.label_sets if name in chosen]

    @property
    def reward_release(self) -> str:
        """The release that validates reward models: the first chosen release with MRBench's dimensions.

        If no chosen release has them, the release on which classifiers are trained.
        """
        return (
            next((name for name in self.chosen_releases if name in self.taxonomy_releases), None)
            or self.classifier_release
        )

    @cached_method
    def label_datasets(self, release: str) -> list[str]:
        """Return the datasets of a release that exist in the run's edition; some are missing in the demo edition."""
        names = list(self.label_sets[release].datasets)
        if self.edition == "published":
            return names
        known = self.datasets
        return [name for name in names if (dataset := known.get(name)) and dataset.demo is not None] or names[:1]

    @cached_method
    def validating_releases(self, grader: str) -> list[str]:
        """Return the labelled releases that validate a grader.

        A judge is validated on the chosen releases for which it has a rubric, a classifier on the release on which it
        is trained, and a reward model on a release with MRBench's dimensions.
        """
        model = self.models[grader]
        if isinstance(model, CriteriaModel):
            return [self.classifier_release]
        if isinstance(model, JudgeModel):
            return [name for name in self.chosen_releases if self.rubric_for_release(grader, name)]
        return [self.reward_release]

    def taxonomy_release(self, grader: str) -> str | None:
        """Return the first release with MRBench's dimensions that validates a grader, or None."""
        return next((name for name in self.validating_releases(grader) if name in self.taxonomy_releases), None)

    @cached_method
    def predicted_releases(self, judge: str) -> list[str]:
        """Return the unlabelled releases for which a judge predicts labels."""
        return [name for name in self.run.predictions if self.rubric_for_release(judge, name)]

    def judged_releases(self, judge: str) -> list[str]:
        """Return the releases that a judge judges: first those that validate it, then those with labels to predict."""
        return [*self.validating_releases(judge), *self.predicted_releases(judge)]

    def label_rubrics(self, judge: str) -> list[str]:
        """Return the rubrics by which a judge judges labelled releases and predicts the labels of unlabelled ones."""
        loaded = [self.rubric_for_release(judge, name) for name in self.judged_releases(judge)]
        return list(dict.fromkeys(rubric.name for rubric in loaded if rubric))

    @cached_property
    def people_rubrics(self) -> dict[str, list[str]]:
        """The rubrics by which people can label each judged task: those of its card and judges, and follow-ups."""
        by_task: dict[str, list[str]] = {}
        for benchmark in self.benchmarks:
            for card in self.judge_cards(benchmark):
                judged_by = [name for judge in self.judges_of_card(card) for name in self.judge_entry(judge).rubrics]
                names = [*card.rubrics, *chosen_rubrics(judged_by, card.rubrics)]
                further = [read_rubric(name).rubric.follow_up for name in names]
                by_task[card.task] = list(dict.fromkeys([*names, *(more.rubric for more in further if more)]))
        return by_task

    @cached_property
    def people_scales(self) -> dict[str, dict[str, Scale]]:
        """The scales on which people label the replies to each judged task, by task and criterion."""
        return {
            task: {key: scale for name in names for key, scale in annotation_scales(read_rubric(name).rubric).items()}
            for task, names in self.people_rubrics.items()
        }

    @cached_property
    def tasks_with_own_criteria(self) -> list[str]:
        """The judged tasks whose items have their own criteria."""
        rules = {task: [read_rubric(name).rubric for name in names] for task, names in self.people_rubrics.items()}
        return [task for task, rubrics in rules.items() if any(rubric.rules.weighted for rubric in rubrics)]

    @cached_method
    def tasks_by_rubric(self, judge: str) -> dict[str, list[str]]:
        """Map each of a judge's rubrics that people can use too to the tasks that the judge judges by this rubric."""
        tasks: dict[str, list[str]] = {}
        for benchmark in self.judged_benchmarks(judge):
            for card in self.judge_cards(benchmark, judge):
                loaded = rubric_for_card(judge, self.judge_entry(judge), card)
                further = loaded.rubric.follow_up
                for loaded_rubric in (loaded, *([read_rubric(further.rubric)] if further else [])):
                    if loaded_rubric.rubric.criteria and not loaded_rubric.rubric.about_tutor:
                        tasks.setdefault(loaded_rubric.name, []).append(card.task)
        return tasks

    @cached_method
    def reworded_rubrics(self, judge: str) -> list[str]:
        """Return the reworded rubric cards with which a judge is probed."""
        return (
            [name for rubric in self.label_rubrics(judge) for name in alternative_wording(rubric)]
            if self.run.probes
            else []
        )

    @cached_property
    def probed_judges(self) -> list[str]:
        """The judges that are probed, or that are tested for bias in favour of their own model family."""
        return [
            name
            for name in self.judges_with_model
            if self.validating_releases(name) and (self.run.probes or self.judge_entry(name).family)
        ]

    def label_limit(self, judge: str) -> int | None:
        """Return the maximum number of labelled replies per release, and of pairs per set, that a judge judges.

        None if the number is not limited.
        """
        if members := self.judge_entry(judge).judges:
            return min(filter(None, (self.label_limit(name) for name in members)), default=None)
        return self.judge_entry(judge).label_limit or self.run.label_limit

    # used registry entries --------------------------------------------------------------------------------------------

    @cached_property
    def answering_models(self) -> list[str]:
        """The registry entries that answer requests: tutors, the models of judges and taggers, and the reader."""
        judges = [self.answering_entry(name) for name in (*self.run.judges, *self.run.taggers)]
        reader = [self.run.reader] if self.run.reader else []
        return list(dict.fromkeys([*self.tutors, *judges, *reader]))

    @cached_property
    def used_models(self) -> list[str]:
        """The registry entries that a run needs: those that answer, graders, what they are trained on, and encoders."""
        graders = [*self.reward_models, *self.classifiers]
        trains = [getattr(self.models[name], "train", None) for name in graders]
        bases = [train.base for train in trains if train]
        judges = [*self.run.judges, *self.run.taggers]
        return list(dict.fromkeys([*self.answering_models, *graders, *bases, *judges, *self.run.encoders]))

    def joint_needs(self, names: Iterable[str], runtime: int) -> Needs:
        """Return the resources of a job that calls several models.

        GPUs and memory are summed over the models; the number of CPUs is the maximum over the models.
        """
        needs = [self.models[name].needs for name in names]
        return Needs(
            gpus=sum(entry.gpus for entry in needs),
            cpus=max(entry.cpus for entry in needs),
            mem_mb=sum(entry.mem_mb for entry in needs),
            runtime=runtime,
        )

    @cached_property
    def pictured_datasets(self) -> list[str]:
        """The datasets whose pictures a run needs."""
        return sorted({loaded.card.dataset for loaded in self.cards.values() if loaded.card.images})

    @cached_property
    def used_datasets(self) -> list[str]:
        """The datasets that a run needs."""
        datasets = {loaded.card.dataset for loaded in self.cards.values()}
        datasets |= {dataset for source in self.used_sources for dataset in self.pair_datasets(source)}
        datasets |= {dataset for release in self.releases for dataset in self.label_datasets(release)}
        entries = [self.models[tutor] for tutor in self.tutors]
        datasets |= {name for entry in entries if isinstance(entry, RecordedModel) for name in entry.datasets}
        return sorted(datasets)
