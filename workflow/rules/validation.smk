"""results/labels, results/rewards, results/verdicts -> results/validation: each grader's agreement with people."""

from maieutic.judges import stage as judges_stage
from maieutic.rewards import stage as rewards_stage
from maieutic.validation import stage as validation_stage


rule validate_reward_model:
    """Validate a reward model on the leading set of preferences: its accuracy and margin, and the length baseline."""
    input:
        pairs=plan.select(inputs.leading_pairs),
        rewards="results/rewards/pairs/{reward_model}.jsonl",
        training=plan.select(rewards_stage.training_pairs),
    output:
        "results/validation/{reward_model}/pairs.json",
    log:
        "results/logs/validate_reward_model/{reward_model}.log",
    wildcard_constraints:
        reward_model=one_of(plan.reward_models),
    localrule: True
    params:
        **job("validate_reward_model"),
    shell:
        command(
            "validate-reward-model",
            pairs="{input.pairs}",
            rewards="{input.rewards}",
            training="{input.training}",
            out="{output}",
        )


use rule validate_reward_model as validate_reward_on_pairs with:
    """Validate a reward model on a further set of preferences."""
    input:
        pairs="results/preferences/{source}/pairs.jsonl",
        rewards="results/rewards/preferences/{reward_model}/{source}.jsonl",
        training=plan.select(rewards_stage.training_pairs),
    output:
        "results/validation/{reward_model}/preferences/{source}.json",
    log:
        "results/logs/validate_reward_on_pairs/{reward_model}/{source}.log",
    params:
        **job("validate_reward_model", "validate_reward_on_pairs"),


rule validate_criteria:
    """Validate criteria classifiers, each alone and all together, on held-out replies and the leading preferences."""
    input:
        pairs=plan.select(inputs.leading_pairs),
        heldout="results/rewards/criteria/{classifier}/heldout.jsonl",
        classified="results/rewards/criteria/{classifier}/bridge.jsonl",
    output:
        "results/validation/{classifier}/pairs.json",
    log:
        "results/logs/validate_criteria/{classifier}.log",
    wildcard_constraints:
        classifier=one_of(plan.classifiers),
    localrule: True
    params:
        **job("validate_criteria"),
    shell:
        command(
            "validate-criteria",
            pairs="{input.pairs}",
            heldout="{input.heldout}",
            classified="{input.classified}",
            out="{output}",
        )


use rule validate_criteria as validate_criteria_on_pairs with:
    """Validate criteria classifiers on a further set of preferences."""
    input:
        pairs="results/preferences/{source}/pairs.jsonl",
        heldout="results/rewards/criteria/{classifier}/heldout.jsonl",
        classified="results/rewards/criteria/{classifier}/preferences/{source}.jsonl",
    output:
        "results/validation/{classifier}/preferences/{source}.json",
    log:
        "results/logs/validate_criteria_on_pairs/{classifier}/{source}.log",
    params:
        **job("validate_criteria", "validate_criteria_on_pairs"),


rule validate_judge:
    """Validate a judge on each labelled set, and on each set of preferences with its replies in both orders."""
    input:
        labels=plan.select(judges_stage.validating_labels),
        pairs=plan.select(judges_stage.judge_pairs),
        verdicts="results/verdicts/{judge}/labelled.jsonl",
        single=plan.select(judges_stage.panel_labelled_verdicts),
    output:
        labels="results/validation/{judge}/labels.json",
        pairs=[
            "results/validation/{judge}/pairs.json",
            *expand(
                "results/validation/{{judge}}/preferences/{source}.json", source=plan.further_pairs
            ),
        ],
    log:
        "results/logs/validate_judge/{judge}.log",
    wildcard_constraints:
        judge=one_of(plan.run.judges),
    localrule: True
    params:
        **job("validate_judge"),
    shell:
        command(
            "validate-judge",
            verdicts="{input.verdicts}",
            single="{input.single}",
            labels="{input.labels}",
            pairs="{input.pairs}",
            out="{output.labels}",
            pairs_out="{output.pairs}",
        )


rule validate_probes:
    """Measure how much a judge's verdicts depend on irrelevant changes to its prompts (probes)."""
    input:
        labels=plan.select(judges_stage.validating_labels),
        verdicts="results/verdicts/{judge}/labelled.jsonl",
        probes=plan.select(judges_stage.probe_verdicts),
    output:
        "results/validation/{judge}/probes.json",
    log:
        "results/logs/validate_probes/{judge}.log",
    wildcard_constraints:
        judge=one_of(plan.probed_judges),
    localrule: True
    params:
        **job("validate_probes"),
    shell:
        command(
            "validate-probes",
            verdicts="{input.verdicts}",
            probes="{input.probes}",
            labels="{input.labels}",
            out="{output}",
        )


rule validate_reward_on_labels:
    """Correlate a reward model's scores with human labels."""
    input:
        labels=plan.select(rewards_stage.reward_labels),
        rewards="results/rewards/labelled/{reward_model}.jsonl",
    output:
        "results/validation/{reward_model}/labels.json",
    log:
        "results/logs/validate_reward_on_labels/{reward_model}.log",
    wildcard_constraints:
        reward_model=one_of(plan.reward_models),
    localrule: True
    params:
        **job("validate_reward_on_labels"),
    shell:
        command(
            "validate-reward-on-labels",
            labels="{input.labels}",
            rewards="{input.rewards}",
            out="{output}",
        )


rule validate_criteria_on_labels:
    """Validate criteria classifiers on the labels of held-out replies."""
    input:
        labels=plan.select(validation_stage.classifier_validation_labels),
        heldout="results/rewards/criteria/{classifier}/heldout.jsonl",
    output:
        "results/validation/{classifier}/labels.json",
    log:
        "results/logs/validate_criteria_on_labels/{classifier}.log",
    wildcard_constraints:
        classifier=one_of(plan.classifiers),
    localrule: True
    params:
        **job("validate_criteria_on_labels"),
    shell:
        command(
            "validate-criteria-on-labels",
            labels="{input.labels}",
            heldout="{input.heldout}",
            out="{output}",
        )


rule save_labels:
    """Read people's labels of this run's replies from the user's file, for the report."""
    input:
        people=plan.select(validation_stage.people_labels),
    output:
        "results/validation/labels.jsonl",
    log:
        "results/logs/save_labels.log",
    localrule: True
    params:
        **job("save_labels"),
    shell:
        command("save-labels", people="{input.people}", out="{output}")


rule choose_judge:
    """Choose the run's leading judge by people's labels of half of this run's labelled items."""
    input:
        people=plan.select(validation_stage.people_labels),
        verdicts=plan.select(validation_stage.candidate_verdicts),
    output:
        "results/validation/leading_judge.json",
    log:
        "results/logs/choose_judge.log",
    localrule: True
    params:
        **job("choose_judge"),
    shell:
        command(
            "choose-judge", verdicts="{input.verdicts}", people="{input.people}", out="{output}"
        )


rule correct_by_people:
    """Correct the rates that a judge estimates, with human labels of this run's replies."""
    input:
        people=plan.select(validation_stage.people_labels),
        verdicts=plan.select(judges_stage.all_verdicts),
    output:
        scores="results/validation/{judge}/people.json",
        differences="results/validation/{judge}/differences.json",
    log:
        "results/logs/correct_by_people/{judge}.log",
    localrule: True
    params:
        **job("correct_by_people"),
    shell:
        command(
            "correct-by-people",
            verdicts="{input.verdicts}",
            people="{input.people}",
            out="{output.scores}",
            differences="{output.differences}",
        )
