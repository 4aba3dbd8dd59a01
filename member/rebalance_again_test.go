package member

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"rollcall/operator/admin"
	"rollcall/operator/api"
)

// A member moves clients once at a time. When a rebalance has ended, however it did, the next one may begin.
func TestNextRebalance(t *testing.T) {
	errLook := errors.New("a look failed")
	for name, first := range map[string]func(ctx context.Context, stop func()) (api.List[api.Member], error){
		"it was done": func(context.Context, func()) (api.List[api.Member], error) { return counted(4, 4, 4), nil },
		"it failed": func(context.Context, func()) (api.List[api.Member], error) {
			return api.List[api.Member]{}, errLook
		},
		"it was stopped": func(_ context.Context, stop func()) (api.List[api.Member], error) {
			stop()
			return counted(12, 0, 0), nil
		},
		"it was in vain":  func(context.Context, func()) (api.List[api.Member], error) { return counted(4, 4, -1), nil },
		"it moved nobody": func(context.Context, func()) (api.List[api.Member], error) { return counted(12, 0, 0), nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var again error
				b, _ := scripted(nil, func(closeRequest) (int, error) { return 0, nil })
				b.pollMembers = func(context.Context) (api.List[api.Member], error) {
					again = b.rebalanceClients(t.Context(), &rebalanceRun{perSecond: 100, requestedBy: "another"})
					return first(ctx, stop)
				}
				_ = b.rebalanceClients(ctx, &rebalanceRun{perSecond: 100, requestedBy: "a test"}) // each case ends in its own way
				if f, ok := errors.AsType[*admin.Failure](again); !ok || f.Status != http.StatusConflict {
					t.Errorf("beside another one: %v", again)
				}
				b.pollMembers = func(context.Context) (api.List[api.Member], error) { return counted(4, 4, 4), nil }
				r := &rebalanceRun{perSecond: 100, requestedBy: "a test"}
				if err := b.rebalanceClients(t.Context(), r); err != nil || !r.result.Balanced {
					t.Errorf("the next one: %v, %+v", err, r.result)
				}
			})
		})
	}
}
