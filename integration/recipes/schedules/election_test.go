package schedules

import (
	"context"
	"errors"
	"fmt"

	"rollcall/client"
	"rollcall/client/election"
)

// handingOver is a leadership that ends by a hand-over to another client, if that is a candidate.
type handingOver struct {
	*election.Leadership
	to string
}

// Release implements right.
func (h handingOver) Release(ctx context.Context) error {
	if h.to == "" {
		return h.Resign(ctx)
	}
	err := h.HandOver(ctx, []byte(h.to))
	if err == nil {
		return nil
	}
	return errors.Join(h.Resign(ctx), ignoreNoCandidate(err))
}

func ignoreNoCandidate(err error) error {
	if errors.Is(err, election.ErrNoCandidate) || errors.Is(err, client.ErrNotHeld) {
		return nil
	}
	return err
}

// electionRecipe has candidates of which some hand the leadership over, if handOver is set.
func electionRecipe(name string, handOver bool) recipe {
	path := folder(name, 1)
	r := rightRecipe(name, 1, []string{path}, func(a *actor) acquire {
		to := ""
		if handOver && a.rng.IntN(2) == 0 {
			to = fmt.Sprint(1 + a.rng.IntN(len(a.actors)))
		}
		return acquire{[]string{path}, func(ctx context.Context, c *client.Client) (acquired, error) {
			l, err := election.New(c, path, election.Config{Data: []byte(fmt.Sprint(a.number))}).Campaign(ctx)
			if err != nil {
				return acquired{}, err
			}
			got, err := oneSubject(path, true, l.Right, nil)
			got.right = handingOver{l, to}
			return got, err
		}}
	})
	r.wakesOne = !handOver
	return r
}
