// Package result holds what a run of drills found, as plain data. The data is written as JSON, and the reports for
// people and for CI are made from it. It judges nothing and knows no ensemble.
//
// Times within a drill are milliseconds since the drill began (Millis).
package result

import "time"

// Format is the version of the JSON document.
const Format = 1

// Millis is a time since the beginning of a drill, or a duration, in milliseconds.
type Millis float64

// Since returns d as Millis.
func Since(d time.Duration) Millis { return Millis(float64(d) / float64(time.Millisecond)) }

// Run is the result of `rollcall drill` on one ensemble.
type Run struct {
	Format   int       `json:"format"` // Format
	Command  string    `json:"command"`
	Began    time.Time `json:"began"`
	Ended    time.Time `json:"ended"`
	Seed     uint64    `json:"seed"`
	Ensemble Ensemble  `json:"ensemble"`
	Drills   []Drill   `json:"drills"` // in the order in which they ran; a repeated drill has one entry for each time
}

// Ensemble describes the ensemble that was drilled.
type Ensemble struct {
	Software string   `json:"software"` // "Rollcall 0.1.0", "ZooKeeper 3.8.0", or "unknown"
	Kind     string   `json:"kind"`     // how its members are controlled: "processes", "compose", "hooks"
	Members  []Member `json:"members"`
	TickMS   int      `json:"tickMs,omitempty"` // 0: unknown
}

// Member is one server of the ensemble.
type Member struct {
	Name    string `json:"name"`
	Clients string `json:"clients"` // its address for clients
}

// Outcome is PASS, FAIL or NOT RUN.
type Outcome string

const (
	Pass   Outcome = "PASS"
	Fail   Outcome = "FAIL"
	NotRun Outcome = "NOT RUN"
)

// Drill is one drill that ran once, or did not run.
type Drill struct {
	Name     string         `json:"name"` // "leader-kill"
	Title    string         `json:"title"`
	Repeat   int            `json:"repeat"` // from 1
	Seed     uint64         `json:"seed"`
	Outcome  Outcome        `json:"outcome"`
	Reason   string         `json:"reason,omitempty"` // why it failed as a whole, or did not run
	Began    time.Time      `json:"began"`
	Took     Millis         `json:"tookMs"`
	Faults   []Fault        `json:"faults,omitempty"`
	Verdicts []Verdict      `json:"verdicts,omitempty"`
	Gaps     []Gap          `json:"gaps,omitempty"`
	Leaders  []Leader       `json:"leaders,omitempty"`
	Sessions []SessionCount `json:"sessions,omitempty"`
	Load     Load           `json:"load"`
}

// Fault is something that the drill broke, and for how long.
type Fault struct {
	Kind   string `json:"kind"` // "kill", "stop", "cut"; see package target
	Member string `json:"member,omitempty"`
	Text   string `json:"text"` // for people: "kill -9 of member 2, the leader"
	From   Millis `json:"fromMs"`
	To     Millis `json:"toMs"` // when it was healed
}

// Verdict is the judgement on one promise.
type Verdict struct {
	Rule       string      `json:"rule"`    // "lost-writes"
	Promise    string      `json:"promise"` // one sentence: what is judged
	Page       string      `json:"page"`    // where the docs promise it: "docs/sessions.md#…"
	Outcome    Outcome     `json:"outcome"`
	Judged     int         `json:"judged"` // how many writes, sessions, reads were judged
	Reason     string      `json:"reason,omitempty"`
	Slack      Millis      `json:"slackMs,omitempty"` // what the rule allows for what a client cannot know
	Violations []Violation `json:"violations,omitempty"`
	More       int         `json:"more,omitempty"` // violations that are counted and not listed
}

// MaxViolations limits the violations of a rule that are listed. The others are counted.
const MaxViolations = 10

// Violation is one broken promise, with the part of the history that shows it.
type Violation struct {
	At      Millis   `json:"atMs"`
	Text    string   `json:"text"`
	History []string `json:"history"` // lines in the order of time, each with its time
}

// Interval is a part of the drill's time.
type Interval struct {
	From Millis `json:"fromMs"`
	To   Millis `json:"toMs"`
}

// Gap is the longest time without an answered request of one kind at one member, or over all clients.
type Gap struct {
	Member   string   `json:"member"` // "" : by clients that may use any member
	Kind     string   `json:"kind"`   // "write" or "read"
	Longest  Interval `json:"longest"`
	Answered int      `json:"answered"`
	Failed   int      `json:"failed"`
	// Pauses are the times without an answer that are longer than PauseAfter, in order: the longest MaxPauses of them.
	Pauses []Interval `json:"pauses,omitempty"`
}

// PauseAfter is from which length on a time without an answer is listed, and MaxPauses how many are.
const (
	PauseAfter = Millis(100)
	MaxPauses  = 200
)

// Leader is the member that led from a moment on.
type Leader struct {
	At     Millis `json:"atMs"`
	Member string `json:"member"`         // "": none, or unknown
	Term   uint64 `json:"term,omitempty"` // 0: unknown
}

// SessionCount counts the sessions of the drill's clients at one member at a moment.
type SessionCount struct {
	At        Millis         `json:"atMs"`
	Connected map[string]int `json:"connected"` // by member
	Suspended int            `json:"suspended"`
	Expired   int            `json:"expired"` // in all so far
}

// Load counts what the drill's clients did.
type Load struct {
	Sessions int `json:"sessions"`
	Writes   int `json:"writes"`
	Reads    int `json:"reads"`
	Events   int `json:"events"`
	Locks    int `json:"locks"` // times that a lock was held
}
