package group_test

import (
	"context"
	"fmt"

	"rollcall/client"
	"rollcall/client/group"
)

// A program that is a member of a group as long as it runs, and prints who else is.
func Example() {
	run := func(ctx context.Context, servers, id string) error {
		return client.Keep(ctx, servers, client.Config{}, func(ctx context.Context, c *client.Client) error {
			if _, err := group.Join(ctx, c, "/crew", id, nil); err != nil {
				return err
			}
			for members, err := range group.Watch(ctx, c, "/crew") {
				if err != nil {
					return err
				}
				fmt.Println(len(members), "members")
			}
			return nil
		})
	}
	_ = run
}

// The members of a group share 64 partitions. Each write under a partition is carried out only if the member still owns
// it.
func ExampleSharePartitions() {
	run := func(ctx context.Context, c *client.Client, id string) error {
		cfg := group.PartitionsConfig{Parent: "/crew", ID: id, Partitions: 64}
		return group.SharePartitions(ctx, c, cfg, func(ctx context.Context, p group.Partition) error {
			_, err := p.Guard(ctx, client.SetOp(fmt.Sprintf("/state/%d", p.Number), []byte(id), client.AnyVersion))
			if err != nil {
				return err
			}
			<-ctx.Done() // work
			return nil
		})
	}
	_ = run
}
