package registry_test

import (
	"context"
	"fmt"

	"rollcall/client"
	"rollcall/client/registry"
)

// A program registers as an instance of a service as long as it runs. Programs with Curator find it.
func Example() {
	run := func(ctx context.Context, servers string) error {
		return client.Keep(ctx, servers, client.Config{}, func(ctx context.Context, c *client.Client) error {
			me := registry.Instance{Name: "search", ID: "search-7", Address: "10.0.0.7", Port: 8080}
			if _, _, err := registry.Register(ctx, c, "/services", me); err != nil {
				return err
			}
			<-ctx.Done() // serve
			return ctx.Err()
		})
	}
	_ = run
}

// A program follows the instances of a service.
func ExampleWatch() {
	run := func(ctx context.Context, c *client.Client) error {
		for list, err := range registry.Watch(ctx, c, "/services", "search") {
			if err != nil {
				return err
			}
			for _, i := range list.Entries {
				fmt.Println(i.Address, i.Port)
			}
			for _, bad := range list.Malformed {
				fmt.Println("left out:", bad)
			}
		}
		return nil
	}
	_ = run
}
