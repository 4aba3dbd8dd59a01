package admin

import (
	"context"
	"net/http"
	"net/http/pprof"
	"time"
)

// profileTimeout limits a profile, with the time to send it.
const profileTimeout = 3 * time.Minute

// profiles are the endpoints of Go's profiler. Profiles show the memory of the member, and so the data of its
// clients. The command line is not among them, because --set can put a secret there.
var profiles = []endpoint{
	{
		method: "GET", path: "/debug/pprof/", access: changeAccess, action: "profile", longReply: true,
		timeout: profileTimeout, help: "Go's profiles: their list, and each under its name", serve: profile(pprof.Index),
	},
	{
		method: "GET", path: "/debug/pprof/profile", access: changeAccess, action: "profile", longReply: true,
		timeout: profileTimeout, help: "a profile of the processor time, over the parameter seconds",
		serve: profile(pprof.Profile),
	},
	{
		method: "GET", path: "/debug/pprof/symbol", access: changeAccess, action: "profile", help: "the names of functions",
		serve: profile(pprof.Symbol),
	},
	{
		method: "GET", path: "/debug/pprof/trace", access: changeAccess, action: "profile", longReply: true,
		timeout: profileTimeout, help: "a trace of the execution, over the parameter seconds", serve: profile(pprof.Trace),
	},
}

// profile runs one of the profiler's handlers, within the timeout.
func profile(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), profileTimeout-partTimeout)
		defer cancel()
		serve(w, r.WithContext(ctx))
	}
}
