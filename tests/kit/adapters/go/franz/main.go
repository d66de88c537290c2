// The adapter of franz-go.
package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"kit"
)

func main() {
	o := kit.Read()
	call := func(begin, end, delay string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			if partitions == nil {
				partitions = map[string][]int32{}
			}
			kit.Say(begin, partitions, nil)
			time.Sleep(o.Milliseconds(delay, 0))
			if end != "" {
				kit.Say(end, partitions, nil)
			}
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(o["bootstrap"]), kgo.ConsumerGroup(o["group"]), kgo.ClientID("franz"),
		kgo.RebalanceTimeout(o.Milliseconds("max-poll-ms", 300000)), kgo.SessionTimeout(o.Milliseconds("session-ms", 45000)),
		kgo.HeartbeatInterval(time.Second), kgo.AutoCommitInterval(time.Second), kgo.MetadataMinAge(time.Second), kgo.MetadataMaxAge(3 * time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(call("assign", "assigned", "assign-delay-ms")),
		kgo.OnPartitionsRevoked(call("revoke", "revoked", "revoke-delay-ms")),
		kgo.OnPartitionsLost(call("lost", "", "")),
	}
	switch {
	case o["protocol"] == "consumer" && o["assignor"] == "range":
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	case o["protocol"] == "consumer":
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	case strings.Contains(o["assignor"], "cooperative"):
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	default:
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	}
	if strings.HasPrefix(o["topics"], "^") {
		options = append(options, kgo.ConsumeRegex())
	}
	options = append(options, kgo.ConsumeTopics(strings.Split(o["topics"], ",")...))
	if o["instance"] != "" {
		options = append(options, kgo.InstanceID(o["instance"]))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		kit.Say("error", nil, err)
		kit.Say("close_end", nil, nil)
		return
	}
	var paused, closing atomic.Bool
	go kit.Listen(func(verb, rest string) {
		switch verb {
		case "close":
			closing.Store(true)
		case "pause", "resume":
			paused.Store(verb == "pause")
		case "subscribe", "unsubscribe":
			kit.Say("error", nil, errors.New("unsupported: "+verb+" "+rest))
		case "commit":
			if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
				kit.Say("error", nil, err)
			}
		}
	})
	for !closing.Load() {
		if paused.Load() {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		for _, failed := range client.PollFetches(ctx).Errors() {
			if !errors.Is(failed.Err, context.DeadlineExceeded) {
				kit.Say("error", nil, failed.Err)
				time.Sleep(50 * time.Millisecond)
			}
		}
		cancel()
	}
	client.Close()
	kit.Say("close_end", nil, nil)
}
