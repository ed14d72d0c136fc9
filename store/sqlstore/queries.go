package sqlstore

import (
	"regexp"
	"strconv"
	"strings"
)

// Kinds of rows.
const (
	deliveries = iota
	acts
	submits
	kinds
)

// queries are the statements of a dialect. Times are microseconds since 1970
// by the server's clock. lease_until 0 means that the claim is final or the
// act done.
//
// A claim that comes twice, under one token, takes what it has once more. It may
// come late, after the engine's connection broke, so it never takes what is
// final or done by then.
//
// A statement reads the clock at its start. If it then waits for a row, its
// time is early, which makes leases that it sees longer and the one that it
// takes shorter: never wrong for whoever holds or waits.
type queries struct {
	claim, finalize, unclaim                       string
	claims, finals, reserves, commits              string // of many callers, see gather
	lookup, reserve, commit, release, doubt        string
	put, get, ack, drop                            string
	clean                                          [kinds]string
	forgetDelivery, forgetAct                      string
	version, setVersion, createVersion, lockSchema string
	create                                         []string
}

func newQueries(cfg Config) queries {
	table := func(name string) string {
		if cfg.Schema != "" {
			return `"` + cfg.Schema + `".` + cfg.TablePrefix + name
		}
		return cfg.TablePrefix + name
	}
	tables := [kinds]string{table("delivery"), table("act"), table("submit")}
	words := []string{
		"{delivery}", tables[deliveries], "{act}", tables[acts], "{submit}", tables[submits], "{schema}", table("schema"),
		"{prefix}", cfg.TablePrefix,
		"{live}", "keep_until > {now}",
	}
	switch cfg.Dialect {
	case PostgreSQL:
		words = append(words,
			"{now}", "(extract(epoch from statement_timestamp()) * 1000000)::bigint",
			"{bytes}", "BYTEA", "{least}", "least", "{table}", "", "{skip}", "FOR UPDATE SKIP LOCKED")
	case SQLite:
		words = append(words,
			"{now}", "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
			"{bytes}", "BLOB", "{least}", "min", "{table}", " STRICT, WITHOUT ROWID", "{skip}", "")
	}
	fill := strings.NewReplacer(words...)
	sql := func(text string) string {
		text = fill.Replace(fill.Replace(strings.Join(strings.Fields(text), " ")))
		if cfg.Dialect == SQLite {
			// Its drivers number $1 by place and ?1 by name.
			text = strings.ReplaceAll(text, "$", "?")
		}
		return text
	}

	claim := upsert{
		into:   `{delivery} AS e (id, token, lease_until, keep_until, changed_at)`,
		values: `$1, $2, CASE WHEN CAST($3 AS BIGINT) = 0 THEN 0 ELSE {now} + CAST($3 AS BIGINT) END, {now} + CAST($4 AS BIGINT), {now}`,
		free: `e.keep_until <= excluded.changed_at
			OR (e.lease_until <> 0 AND (e.token = excluded.token OR e.lease_until <= excluded.changed_at))`,
		columns:   []string{"token", "lease_until", "keep_until", "changed_at"},
		returning: `token, lease_until`,
	}
	reserve := upsert{
		into:   `{act} AS e (id, resolution, token, lease_until, keep_until, changed_at)`,
		values: `$1, $2, $3, {now} + CAST($4 AS BIGINT), {now} + CAST($5 AS BIGINT), {now}`,
		free: `e.keep_until <= excluded.changed_at OR (e.lease_until <> 0 AND e.resolution = excluded.resolution
			AND (e.token = excluded.token OR ({doubt} = 1 AND e.lease_until <= excluded.changed_at)))`,
		columns:   []string{"resolution", "token", "lease_until", "keep_until", "changed_at"},
		returning: `resolution, token, lease_until, {now}`,
	}
	put := upsert{
		into:      `{submit} AS e (id, token, body, ack, keep_until, changed_at)`,
		values:    `$1, $2, $3, NULL, {now} + CAST($4 AS BIGINT), {now}`,
		free:      `e.keep_until <= excluded.changed_at`,
		columns:   []string{"token", "body", "ack", "keep_until", "changed_at"},
		returning: `token, body, ack, changed_at, {now}`,
	}

	q := queries{
		claim:    sql(claim.one()),
		claims:   sql(claim.many(cfg.Dialect, 1)),
		finalize: sql(`UPDATE {delivery} SET lease_until = 0, changed_at = {now} WHERE id = $1 AND {live} RETURNING token`),
		unclaim:  sql(`DELETE FROM {delivery} WHERE id = $1 AND lease_until <> 0`),

		lookup:   sql(`SELECT resolution, token, lease_until, {now} FROM {act} WHERE id = $1 AND {live}`),
		finals:   sql(`UPDATE {delivery} SET lease_until = 0, changed_at = {now} ` + from(cfg.Dialect, 1, "i") + ` WHERE id = i AND {live} RETURNING id, token`),
		reserve:  sql(reserve.one()),
		reserves: sql(reserve.many(cfg.Dialect, 2)),
		commit: sql(`UPDATE {act} SET lease_until = 0, keep_until = {now} + CAST($4 AS BIGINT), changed_at = {now}
			WHERE id = $1 AND resolution = $2 AND token = $3 AND (lease_until = 0 OR lease_until > {now}) RETURNING token`),
		commits: sql(`UPDATE {act} SET lease_until = 0, keep_until = {now} + k, changed_at = {now} ` + from(cfg.Dialect, 2, "i", "r", "t", "k") + `
			WHERE id = i AND resolution = r AND token = t AND (lease_until = 0 OR lease_until > {now}) RETURNING id, token`),
		release: sql(`DELETE FROM {act} WHERE id = $1 AND resolution = $2 AND token = $3 AND lease_until > {now}`),
		doubt: sql(`UPDATE {act} SET lease_until = {least}(lease_until, {now}), keep_until = {now} + CAST($4 AS BIGINT), changed_at = {now}
			WHERE id = $1 AND resolution = $2 AND token = $3 AND lease_until <> 0`),

		put:  sql(put.one()),
		get:  sql(`SELECT token, body, ack, changed_at, {now} FROM {submit} WHERE id = $1 AND {live}`),
		ack:  sql(`UPDATE {submit} SET ack = $2 WHERE id = $1 AND ack IS NULL AND {live}`),
		drop: sql(`DELETE FROM {submit} WHERE id = $1 AND ack IS NULL`),

		forgetDelivery: sql(`DELETE FROM {delivery} WHERE id = $1 AND token = $2`),
		forgetAct:      sql(`DELETE FROM {act} WHERE id = $1 AND token = $2`),

		version:       sql(`SELECT coalesce(max(version), 0) FROM {schema}`),
		setVersion:    sql(`INSERT INTO {schema} (version) VALUES ($1)`),
		createVersion: sql(`CREATE TABLE IF NOT EXISTS {schema} (version INTEGER NOT NULL PRIMARY KEY)`),
		lockSchema:    sql(`SELECT pg_advisory_xact_lock(hashtext('{schema}'), 2082)`),
		create: []string{
			sql(`CREATE TABLE {delivery} (id {bytes} NOT NULL PRIMARY KEY, token BIGINT NOT NULL,
				lease_until BIGINT NOT NULL, keep_until BIGINT NOT NULL, changed_at BIGINT NOT NULL){table}`),
			sql(`CREATE TABLE {act} (id {bytes} NOT NULL PRIMARY KEY, resolution {bytes} NOT NULL, token BIGINT NOT NULL,
				lease_until BIGINT NOT NULL, keep_until BIGINT NOT NULL, changed_at BIGINT NOT NULL){table}`),
			sql(`CREATE TABLE {submit} (id {bytes} NOT NULL PRIMARY KEY, token BIGINT NOT NULL, body {bytes} NOT NULL, ack {bytes},
				keep_until BIGINT NOT NULL, changed_at BIGINT NOT NULL){table}`),
			sql(`CREATE INDEX {prefix}delivery_keep ON {delivery} (keep_until)`),
			sql(`CREATE INDEX {prefix}act_keep ON {act} (keep_until)`),
			sql(`CREATE INDEX {prefix}submit_keep ON {submit} (keep_until)`),
		},
	}
	if cfg.Dialect == SQLite {
		for i, text := range q.create {
			q.create[i] = strings.ReplaceAll(text, "BIGINT", "INTEGER")
		}
	}
	for kind, t := range tables {
		q.clean[kind] = sql(`DELETE FROM ` + t + ` WHERE id IN (SELECT id FROM ` + t + `
			WHERE keep_until <= {now} ORDER BY keep_until LIMIT $1 {skip}) AND keep_until <= {now}`)
	}
	return q
}

// upsert is an INSERT that takes the row over if free holds, and writes it as
// it is if not, so that RETURNING gives the row in either case: what was decided
// and what is there come from one statement and one moment.
type upsert struct {
	into, values, free string
	columns            []string // of an existing row, that it writes
	returning          string
}

func (u upsert) one() string {
	return strings.ReplaceAll(u.statement(`VALUES (`+u.values+`)`, ""), "{doubt}", "CAST($6 AS BIGINT)")
}

// many is one() for each list of a JSON list, see fields. It returns the id, too,
// and never takes what is in doubt. All statements take the rows in one order,
// so that no two wait for each other.
func (u upsert) many(d Dialect, blobs int) string {
	text := u.statement(`SELECT `+u.values+` FROM {list} WHERE true ORDER BY 1`, "id, ")
	field := func(param string) string { n, _ := strconv.Atoi(param[1:]); return d.field(n, blobs) }
	text = regexp.MustCompile(`\$[0-9]+`).ReplaceAllStringFunc(text, field)
	return strings.NewReplacer("{doubt}", "0", "{list}", d.list()).Replace(text)
}

// from names the values of each list of a JSON list, for an UPDATE.
func from(d Dialect, blobs int, names ...string) string {
	fields := make([]string, len(names))
	for i, name := range names {
		fields[i] = d.field(i+1, blobs) + ` AS ` + name
	}
	return `FROM (SELECT ` + strings.Join(fields, ", ") + ` FROM ` + d.list() + `) AS x`
}

// list is the JSON list of lists in $1.
func (d Dialect) list() string {
	if d == PostgreSQL {
		return `jsonb_array_elements(CAST($1 AS jsonb)) AS l(value)`
	}
	return `json_each($1) AS l`
}

// field is value n of a list. The first ones, as many as blobs, are bytes in
// hex, the others integers.
func (d Dialect) field(n, blobs int) string {
	v := `l.value->>` + strconv.Itoa(n-1)
	switch {
	case n > blobs:
		return `CAST(` + v + ` AS BIGINT)`
	case d == PostgreSQL:
		return `decode(` + v + `, 'hex')`
	}
	return `unhex(` + v + `)`
}

func (u upsert) statement(source, id string) string {
	sets := make([]string, len(u.columns))
	for i, c := range u.columns {
		sets[i] = c + ` = CASE WHEN ` + u.free + ` THEN excluded.` + c + ` ELSE e.` + c + ` END`
	}
	return `INSERT INTO ` + u.into + ` ` + source + ` ON CONFLICT (id) DO UPDATE SET ` + strings.Join(sets, ", ") + ` RETURNING ` + id + u.returning
}
