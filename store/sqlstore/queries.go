package sqlstore

import "strings"

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

	q := queries{
		claim: sql(upsert(`INSERT INTO {delivery} AS e (id, token, lease_until, keep_until, changed_at)
			VALUES ($1, $2, CASE WHEN CAST($3 AS BIGINT) = 0 THEN 0 ELSE {now} + CAST($3 AS BIGINT) END, {now} + CAST($4 AS BIGINT), {now})`,
			`e.keep_until <= excluded.changed_at
				OR (e.lease_until <> 0 AND (e.token = excluded.token OR e.lease_until <= excluded.changed_at))`,
			"token", "lease_until", "keep_until", "changed_at") + `RETURNING token, lease_until`),
		finalize: sql(`UPDATE {delivery} SET lease_until = 0, changed_at = {now} WHERE id = $1 AND {live}`),
		unclaim:  sql(`DELETE FROM {delivery} WHERE id = $1 AND lease_until <> 0`),

		lookup: sql(`SELECT resolution, token, lease_until, {now} FROM {act} WHERE id = $1 AND {live}`),
		reserve: sql(upsert(`INSERT INTO {act} AS e (id, resolution, token, lease_until, keep_until, changed_at)
			VALUES ($1, $2, $3, {now} + CAST($4 AS BIGINT), {now} + CAST($5 AS BIGINT), {now})`,
			`e.keep_until <= excluded.changed_at OR (e.lease_until <> 0 AND e.resolution = excluded.resolution
				AND (e.token = excluded.token OR (CAST($6 AS BIGINT) = 1 AND e.lease_until <= excluded.changed_at)))`,
			"resolution", "token", "lease_until", "keep_until", "changed_at") + `RETURNING resolution, token, lease_until, {now}`),
		commit: sql(`UPDATE {act} SET lease_until = 0, keep_until = {now} + CAST($4 AS BIGINT), changed_at = {now}
			WHERE id = $1 AND resolution = $2 AND token = $3 AND (lease_until = 0 OR lease_until > {now})`),
		release: sql(`DELETE FROM {act} WHERE id = $1 AND resolution = $2 AND token = $3 AND lease_until > {now}`),
		doubt: sql(`UPDATE {act} SET lease_until = {least}(lease_until, {now}), keep_until = {now} + CAST($4 AS BIGINT), changed_at = {now}
			WHERE id = $1 AND resolution = $2 AND token = $3 AND lease_until <> 0`),

		put: sql(upsert(`INSERT INTO {submit} AS e (id, token, body, ack, keep_until, changed_at)
			VALUES ($1, $2, $3, NULL, {now} + CAST($4 AS BIGINT), {now})`,
			`e.keep_until <= excluded.changed_at`,
			"token", "body", "ack", "keep_until", "changed_at") + `RETURNING token, body, ack, changed_at, {now}`),
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

// upsert makes an INSERT that takes the row over if free holds, and writes it
// as it is if not, so that RETURNING gives the row in either case: what was
// decided and what is there come from one statement and one moment.
func upsert(insert, free string, columns ...string) string {
	sets := make([]string, len(columns))
	for i, c := range columns {
		sets[i] = c + ` = CASE WHEN ` + free + ` THEN excluded.` + c + ` ELSE e.` + c + ` END`
	}
	return insert + ` ON CONFLICT (id) DO UPDATE SET ` + strings.Join(sets, ", ") + ` `
}
