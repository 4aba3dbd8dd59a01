package config

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"rollcall/internal/serverlist"
)

var update = flag.Bool("update", false, "write the lists of docs/configuration.md anew")

// The lists in docs/configuration.md match the program.
func TestConfigurationDocs(t *testing.T) {
	const page = "../docs/configuration.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	want := got
	for _, of := range []struct {
		begin string
		rows  []string
	}{
		{"## Keys", servedRows()},
		{"### Refused keys", refusedRows()},
		{"### Keys without effect", idleRows()},
		{"## Variables", variableRows()},
	} {
		if want, err = withRows(want, of.begin, of.rows); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case got == want:
	case *update:
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the lists in %s differ from keys.go and environ.go; rewrite them with: go test ./config -run TestConfigurationDocs -update", page)
	}
}

// withRows returns page with rows in place of those that it has after the line begin, the first of which begins as rows[0] does. It
// returns an error if there are none.
func withRows(page, begin string, rows []string) (string, error) {
	mark := rows[0][:len("* `")]
	_, after, found := strings.Cut(page, "\n"+begin+"\n")
	i := strings.Index(after, "\n"+mark)
	if !found || i < 0 {
		return "", fmt.Errorf("there are no rows after %s", begin)
	}
	after = after[i+1:]
	before := page[:len(page)-len(after)]
	for strings.HasPrefix(after, mark) {
		_, after, _ = strings.Cut(after, "\n")
	}
	return before + strings.Join(rows, "\n") + "\n" + after, nil
}

// servedRows, refusedRows, idleRows and variableRows return the lists of the page.
func servedRows() (rows []string) {
	for _, k := range keys {
		if k.status != served {
			continue
		}
		name, notes := k.name, []string{}
		if k.def != "" {
			name += "=" + k.def
		}
		if allowed := shortAllowed(k.kind.allowed); allowed != "" {
			notes = append(notes, allowed)
		}
		if k.unset != "" && k.unset != "none" {
			notes = append(notes, k.unset)
		}
		text := strings.TrimPrefix(strings.TrimPrefix(k.doc, "Own: "), "Own. ")
		if text != k.doc {
			notes = append(notes, "own")
		}
		note := ""
		if len(notes) > 0 {
			note = " (" + strings.Join(notes, "; ") + ")"
		}
		rows = append(rows, fmt.Sprintf("* `%s`%s: %s", name, note, text))
	}
	return rows
}

// shortAllowed returns what a value may be, or "" where the name or the text of the key says that.
func shortAllowed(allowed string) string {
	switch allowed {
	case "true or false", "false or true", "yes or no", "a path", "text", "a name", "the path of a file with one line", "x509":
		return ""
	case serverlist.HostSyntax:
		return "an address"
	}
	return strings.NewReplacer(" (ms)", " ms", " (bytes)", " bytes", "<", `\<`).Replace(allowed)
}

func refusedRows() []string {
	return grouped(refused, func(k key) string {
		if k.harmlessValue != "" {
			return " (" + k.harmlessValue + "): " + k.doc
		}
		return ": " + k.doc
	})
}

func idleRows() []string {
	return grouped(noEffect, func(k key) string { return ": " + k.doc })
}

// grouped returns an item for all keys of a status with the same text after their names.
func grouped(of status, after func(key) string) (items []string) {
	at := map[string]int{}
	for _, k := range keys {
		if k.status != of {
			continue
		}
		text, name := after(k), "`"+k.name+"`"
		i, known := at[text]
		if !known {
			at[text] = len(items)
			items = append(items, "* "+name+text)
			continue
		}
		items[i] = strings.TrimSuffix(items[i], text) + ", " + name + text
	}
	return items
}

func variableRows() (rows []string) {
	for _, v := range allVariables() {
		name := v.name
		if v.def != "" {
			name += "=" + v.def
		}
		rows = append(rows, fmt.Sprintf("* `%s`: %s", name, cmp.Or(v.key, v.effect)))
	}
	return rows
}
