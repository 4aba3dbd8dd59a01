package config

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/configuration.md anew")

// The tables in docs/configuration.md match the program.
func TestConfigurationDocs(t *testing.T) {
	const page = "../docs/configuration.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	want := got
	for _, rows := range [][]string{servedRows(), refusedRows(), idleRows(), variableRows(), flagRows()} {
		if want, err = withRows(want, rows); err != nil {
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
		t.Errorf("the tables in %s differ from keys.go and environ.go; rewrite them with: go test ./config -run TestConfigurationDocs -update", page)
	}
}

// withRows returns page with rows in place of the table that has the header rows[0]. It returns an
// error if there is no such table.
func withRows(page string, rows []string) (string, error) {
	before, after, found := strings.Cut(page, rows[0]+"\n")
	if !found {
		return "", fmt.Errorf("there is no table with the header %s", rows[0])
	}
	for strings.HasPrefix(after, "|") {
		_, after, _ = strings.Cut(after, "\n")
	}
	return before + strings.Join(rows, "\n") + "\n" + after, nil
}

// servedRows, refusedRows, idleRows, variableRows and flagRows return the tables of the page, with their headers.
func servedRows() []string {
	rows := []string{"| Key | Default | Allowed | What it sets |", "|---|---|---|---|"}
	for _, k := range keys {
		if k.status == served {
			allowed := strings.ReplaceAll(cmp.Or(k.kind.allowed, "anything"), "<", `\<`)
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", k.name, cmp.Or(k.def, k.unset), allowed, k.doc))
		}
	}
	return rows
}

func refusedRows() []string {
	rows := []string{"| Refused keys | Accepted value | Why |", "|---|---|---|"}
	return append(rows, grouped(refused, func(k key) string { return cmp.Or(k.harmlessValue, "none") + " | " + k.doc })...)
}

func idleRows() []string {
	rows := []string{"| Keys without effect | Why |", "|---|---|"}
	return append(rows, grouped(noEffect, func(k key) string { return k.doc })...)
}

// grouped returns a row for all keys of a status with the same cells, which the row has after their names.
func grouped(of status, cells func(key) string) (rows []string) {
	at := map[string]int{}
	for _, k := range keys {
		if k.status != of {
			continue
		}
		text, name := cells(k), "`"+k.name+"`"
		i, known := at[text]
		if !known {
			at[text] = len(rows)
			rows = append(rows, "| "+name+" | "+text+" |")
			continue
		}
		rows[i] = strings.TrimSuffix(rows[i], " | "+text+" |") + ", " + name + " | " + text + " |"
	}
	return rows
}

func variableRows() []string {
	rows := []string{"| Variable | Default | Sets |", "|---|---|---|"}
	for _, v := range allVariables() {
		def := "none"
		if v.def != "" {
			def = "`" + v.def + "`"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", v.name, def, cmp.Or(v.key, v.effect)))
	}
	return rows
}

func flagRows() []string {
	rows := []string{"| Flag | Sets |", "|---|---|"}
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	new(Flags).Register(fs)
	fs.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		rows = append(rows, fmt.Sprintf("| `%s` | %s |", strings.TrimSpace("--"+f.Name+" "+value), usage))
	})
	return rows
}
