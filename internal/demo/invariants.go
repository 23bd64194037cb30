package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

// A record is a row that a worker wrote as the leader.
type record struct {
	token  int64
	holder string
	at     time.Time // database time
}

const (
	readWrites  = `SELECT token, holder, at FROM demo_write ORDER BY id`
	readBeliefs = `SELECT token, holder, at FROM demo_belief ORDER BY id`
)

// records reads one of the demo's tables in the order of its writing.
func records(ctx context.Context, pool *sql.DB, query string) ([]record, error) {
	rows, err := pool.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []record
	for rows.Next() {
		var r record
		if err := rows.Scan(&r.token, &r.holder, &r.at); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// backwards says where a write carries a smaller token than one before it, or the same token
// another holder. "" is good.
func backwards(writes []record) string {
	for i := 1; i < len(writes); i++ {
		before, after := writes[i-1], writes[i]
		if after.token < before.token || after.token == before.token && after.holder != before.holder {
			return fmt.Sprintf("%s wrote token %d after %s wrote %d",
				nameOf(after.holder), after.token, nameOf(before.holder), before.token)
		}
	}
	return ""
}

// An interval is the part of a term in which its holder took itself for the leader.
type interval struct {
	token       int64
	holder      string
	first, last time.Time
}

// overlap says which two terms overlap in database time. "" is good.
func overlap(beliefs []record) string {
	terms := intervals(beliefs)
	for i := 1; i < len(terms); i++ {
		before, after := terms[i-1], terms[i]
		if !before.last.Before(after.first) {
			return fmt.Sprintf("%s (token %d) and %s (token %d) for %v",
				nameOf(before.holder), before.token, nameOf(after.holder), after.token,
				before.last.Sub(after.first))
		}
	}
	return ""
}

// intervals puts the beliefs of each term together, in the order of their beginning.
func intervals(beliefs []record) []interval {
	type term struct {
		token  int64
		holder string
	}
	terms := make(map[term]interval)
	for _, b := range beliefs {
		key := term{b.token, b.holder}
		t, ok := terms[key]
		if !ok {
			t = interval{b.token, b.holder, b.at, b.at}
		}
		if b.at.Before(t.first) {
			t.first = b.at
		}
		if b.at.After(t.last) {
			t.last = b.at
		}
		terms[key] = t
	}
	all := make([]interval, 0, len(terms))
	for _, t := range terms {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b interval) int {
		return cmp.Or(a.first.Compare(b.first), cmp.Compare(a.token, b.token))
	})
	return all
}
