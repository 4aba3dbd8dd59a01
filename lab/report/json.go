package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"rollcall/lab/result"
)

// MaxBytes is the size of the largest document that Read takes. One run of one drill takes 3 to 150 KB, so there is
// room for more than 1,700. Reading takes several times the size in memory.
const MaxBytes = 256 << 20

// WriteJSON writes r as JSON, in the form of docs/drills.schema.json. It sets Format. No string has characters that a
// terminal would obey.
func WriteJSON(w io.Writer, r result.Run) error {
	text, err := json.MarshalIndent(withoutNulls(r), "", " ")
	if err == nil {
		_, err = w.Write(append(printableJSON(text), '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the results of the drills as JSON: %w", err)
	}
	return nil
}

// printableJSON escapes the characters that are not printable. Outside of strings, JSON has none but line breaks.
func printableJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out = utf8.AppendRune(out, r)
		case r < 1<<16:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
	}
	return out
}

// withoutNulls returns r with empty lists and objects instead of null, so that scripts need not distinguish them.
func withoutNulls(r result.Run) result.Run {
	r.Format = result.Format
	r.Ensemble.Members = orEmpty(r.Ensemble.Members)
	r.Drills = orEmpty(r.Drills)
	for i := range r.Drills {
		d := &r.Drills[i]
		d.Verdicts, d.Sessions = slices.Clone(d.Verdicts), slices.Clone(d.Sessions)
		for j := range d.Verdicts {
			v := &d.Verdicts[j]
			v.Violations = slices.Clone(v.Violations)
			for k := range v.Violations {
				v.Violations[k].History = orEmpty(v.Violations[k].History)
			}
		}
		for j := range d.Sessions {
			if d.Sessions[j].Connected == nil {
				d.Sessions[j].Connected = map[string]int{}
			}
		}
	}
	return r
}

// orEmpty returns a copy that is not nil.
func orEmpty[T any](s []T) []T { return append([]T{}, s...) }

// Read reads what WriteJSON wrote. It ignores fields that it does not know, and rejects an unknown Format, unknown
// outcomes, and more than MaxBytes.
func Read(r io.Reader) (result.Run, error) { return readWithin(r, MaxBytes) }

func readWithin(r io.Reader, most int64) (result.Run, error) {
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return result.Run{}, fmt.Errorf("read the results of drills: %w", err)
	case int64(len(text)) > most:
		return result.Run{}, fmt.Errorf("the results of drills have more than %d bytes, which is the limit: "+
			"is this a file that rollcall drill wrote?", most)
	}
	var head struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return result.Run{}, notResults(text, err)
	}
	switch {
	case head.Format == nil:
		return result.Run{}, errors.New(`the JSON has no "format", so it is not what rollcall drill writes`)
	case *head.Format != result.Format:
		return result.Run{}, fmt.Errorf("the results of drills have format %d, and this version reads format %d: "+
			"use the version of rollcall that wrote them", *head.Format, result.Format)
	}
	var run result.Run
	if err := json.Unmarshal(text, &run); err != nil {
		return result.Run{}, notResults(text, err)
	}
	return run, checkOutcomes(run)
}

// notResults names the fault in text, and its line.
func notResults(text []byte, err error) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("the results of drills are empty: rollcall drill writes JSON")
	}
	offset := int64(-1)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = syntax.Offset
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = kind.Offset
	}
	if offset < 0 || offset > int64(len(text)) {
		return fmt.Errorf("the results of drills are not the JSON that rollcall drill writes: %w", err)
	}
	line := 1 + bytes.Count(text[:offset], []byte("\n"))
	return fmt.Errorf("the results of drills are not the JSON that rollcall drill writes, at line %d: %w", line, err)
}

var outcomes = []result.Outcome{result.Pass, result.Fail, result.NotRun}

// checkOutcomes rejects outcomes that the reports would not show.
func checkOutcomes(r result.Run) error {
	check := func(o result.Outcome, of string, names ...any) error {
		if slices.Contains(outcomes, o) {
			return nil
		}
		return fmt.Errorf("%s has the outcome %q; there are %q", fmt.Sprintf(of, names...), o, outcomes)
	}
	for _, d := range r.Drills {
		if err := check(d.Outcome, "drill %q", d.Name); err != nil {
			return err
		}
		for _, v := range d.Verdicts {
			if err := check(v.Outcome, "rule %q of drill %q", v.Rule, d.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
