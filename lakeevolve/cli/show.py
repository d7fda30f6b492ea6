"""``lakeevolve show PLAN``: a saved plan, also a stale one."""

from __future__ import annotations

from lakeevolve.cli.console import note, write
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import EmitOption, FindingsFormat, FindingsOutput, PlanArgument, TableOption, open_with


def show(
    plan: PlanArgument,
    emit_as: EmitOption = None,
    option: TableOption = None,
    format: FindingsFormat = "text",
    output: FindingsOutput = None,
) -> int:
    """Show a saved plan, and say whether it is stale."""
    from lakeevolve.errors import TableError
    from lakeevolve.planning.plan import load_plan
    from lakeevolve.report.outcome import of_plan

    saved = load_plan(plan)
    if emit_as is not None:
        from lakeevolve.report.sparksql import spark_sql

        write(spark_sql(saved), coloured=False)
    else:
        emit(of_plan(saved), format, output)
    try:
        reason = saved.stale(open_with(saved.table["uri"], option))
    except TableError as error:
        note(f"warning: whether the plan is stale cannot be told: {error.what}")
    else:
        if reason is not None:
            note(f"warning: the plan is stale: {reason}")
    return 0
