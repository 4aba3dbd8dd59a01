package registry

import (
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client/internal/recipetest"
)

// An instance that is registered is found until it is unregistered or its session ends. What cannot be read is
// malformed.
func TestRegister(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		instances := func(want ...string) Listing[Instance] {
			b.Helper()
			list, err := Instances(b.Ctx, b.Clients[0], "/services", "web")
			b.Must(err)
			var ids []string
			for _, i := range list.Entries {
				ids = append(ids, i.ID)
			}
			if len(ids) != len(want) || len(ids) > 0 && ids[0] != want[0] {
				b.Errorf("the instances are %q, want %q", ids, want)
			}
			return list
		}
		instances()
		first, _, err := Register(b.Ctx, b.Clients[0], "/services", Instance{Name: "web", ID: "a", Port: 80})
		b.Must(err)
		_, _, err = Register(b.Ctx, b.Clients[1], "/services", Instance{Name: "web", ID: "b", Port: 80})
		b.Must(err)
		instances("a", "b")
		if names, err := Names(b.Ctx, b.Clients[0], "/services"); err != nil || len(names) != 1 || names[0] != "web" {
			b.Errorf("the services are %q, %v", names, err)
		}
		b.Must(first.Update(b.Ctx, Instance{Name: "web", ID: "a", Port: 81}))
		if list := instances("a", "b"); list.Entries[0].Port != 81 {
			b.Errorf("the port is %d, want that of the update", list.Entries[0].Port)
		}
		b.Must(first.Unregister(b.Ctx))
		instances("b")
		b.Expire(b.Clients[1])
		b.CreateNode("/services/web/other")
		if list := instances(); len(list.Malformed) != 1 {
			b.Errorf("malformed: %v, want the node of no service", list.Malformed)
		}
	})
}

// A server of a serverset is found, and comes back when its node is deleted.
func TestRegisterServer(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		r, err := RegisterServer(b.Ctx, b.Clients[0], "/set", Server{Service: Endpoint{Host: "h", Port: 80}})
		b.Must(err)
		synctest.Wait()
		b.DeleteNode(r.Path())
		time.Sleep(time.Minute)
		list, err := Servers(b.Ctx, b.Clients[0], "/set")
		if err != nil || len(list.Entries) != 1 || list.Entries[0].Service.Host != "h" || !b.HasNode(r.Path()) {
			b.Errorf("%+v, %v, at %s", list, err, r.Path())
		}
	})
}
