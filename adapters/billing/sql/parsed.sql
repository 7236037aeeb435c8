CREATE OR REPLACE TEMP TABLE parsed AS SELECT row_number() OVER () - 1 AS nth, {columns} FROM {source}
