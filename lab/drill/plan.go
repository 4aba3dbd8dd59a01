package drill

import (
	"fmt"
	"io"
	"strings"
	"time"

	"rollcall/lab/target"
)

// PrintPlan writes what a run will do to an ensemble, before it does it.
func PrintPlan(w io.Writer, c Config, drills []*Drill) error {
	fits, lasts := 0, time.Duration(0)
	var b strings.Builder
	names := memberNames(c.Target)
	fmt.Fprintf(&b, "Ensemble: members %s at %s, controlled by %s\n", strings.Join(names, ", "), connectString(c.Target.Members()), c.Target.Kind())
	if hooks, is := c.Target.(*target.Hooks); is {
		fmt.Fprintf(&b, "Hooks: %s\n", hooks.Around())
	}
	fmt.Fprintf(&b, "Seed: %d. Sessions: timeout %v, below %s<drill>, which is removed afterwards\n\n", c.Seed, c.Timeout, groundsPrefix)
	for i, d := range drills {
		if err := d.Fits(c); err != nil {
			fmt.Fprintf(&b, "%3d. %s: NOT RUN: %v\n", i+1, d.Name, err)
			continue
		}
		fits++
		lasts += d.Lasts(c.Timeout) * time.Duration(c.Repeat)
		fmt.Fprintf(&b, "%3d. %s%s: %s\n", i+1, d.Name, timesText(c.Repeat), d.Does)
	}
	fmt.Fprintf(&b, "\n%d of %d drills run, for about %v. What they break is written down first and healed at the end, on Ctrl-C too;\n"+
		"after a crash, \"rollcall drill heal\" heals it.\n", fits, len(drills), lasts.Round(time.Second))
	_, err := io.WriteString(w, b.String())
	return err
}

func timesText(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(", %d times", n)
}
