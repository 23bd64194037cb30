package wake

import (
	"strings"
)

// NoTLS is the advice for a server that refuses TLS where the URL demands it.
const NoTLS = "the server has no TLS; " +
	"add sslmode=disable to Config.URL if the network between can be trusted"

// advice says what to do about an error that waiting can't mend, or "" if waiting may mend it.
// Where servers answered, their answers decide, else the driver's own advice does.
func advice(err error, ofDriver func(error) string) string {
	answers := states(err)
	if len(answers) == 0 {
		return ofDriver(err)
	}
	text := ""
	for _, state := range answers {
		if text = adviceFor(state, err.Error()); text == "" {
			return "" // with several hosts one may let us in later
		}
	}
	return text
}

// adviceFor is the advice for one SQLSTATE. A password that is wrong because somebody changed it is
// among the errors that waiting can't mend: a listener that keeps trying with it would be silent.
// What passes is a server that starts, stops, is full (57P03, 53300) or a standby (25006).
func adviceFor(state, message string) string {
	if state == "08P01" && strings.Contains(message, "authentication failed") {
		state = "28P01" // PgBouncer had no other code for it once
	}
	switch {
	case strings.HasPrefix(state, "28"): // invalid authorization
		return "check user and password in Config.URL, and the server's pg_hba.conf"
	case state == "3D000": // invalid_catalog_name
		return "check the database's name in Config.URL"
	case state == "42501": // insufficient_privilege
		return "GRANT CONNECT ON DATABASE to this role"
	case strings.HasPrefix(state, "42"), // a parameter that the server does not know
		strings.HasPrefix(state, "22"), // a value that it does not accept
		strings.HasPrefix(state, "0A"): // not supported
		return "remove from Config.URL what this server does not support"
	}
	return ""
}

// states lists the SQLSTATEs in the tree of an error: one for each server that answered. Both
// drivers' errors have the method; matching it keeps this package free of them.
func states(node any) []string {
	switch e := node.(type) {
	case interface{ SQLState() string }:
		return []string{e.SQLState()}
	case interface{ Unwrap() error }:
		return states(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []string
		for _, err := range e.Unwrap() {
			all = append(all, states(err)...)
		}
		return all
	}
	return nil
}
