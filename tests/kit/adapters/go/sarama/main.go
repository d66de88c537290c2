// The adapter of sarama, which knows classic groups only.
package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"kit"
)

type handler struct{ options kit.Options }

func (h handler) Setup(session sarama.ConsumerGroupSession) error {
	kit.Say("assign", session.Claims(), nil)
	time.Sleep(h.options.Milliseconds("assign-delay-ms", 0))
	kit.Say("assigned", session.Claims(), nil)
	return nil
}

func (h handler) Cleanup(session sarama.ConsumerGroupSession) error {
	kit.Say("revoke", session.Claims(), nil)
	time.Sleep(h.options.Milliseconds("revoke-delay-ms", 0))
	kit.Say("revoked", session.Claims(), nil)
	return nil
}

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func main() {
	o := kit.Read()
	if o["protocol"] == "consumer" {
		kit.Say("error", nil, errors.New("sarama has no consumer groups"))
		kit.Say("close_end", nil, nil)
		return
	}
	settings := sarama.NewConfig()
	settings.Version = sarama.V3_6_0_0
	settings.ClientID = "sarama"
	settings.Consumer.Group.Session.Timeout = o.Milliseconds("session-ms", 45000)
	settings.Consumer.Group.Heartbeat.Interval = time.Second
	settings.Consumer.Group.Rebalance.Timeout = o.Milliseconds("max-poll-ms", 60000)
	settings.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	settings.Consumer.Group.InstanceId = o["instance"]
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	settings.Consumer.Offsets.AutoCommit.Interval = time.Second
	settings.Consumer.Return.Errors = true
	settings.Metadata.RefreshFrequency = 3 * time.Second
	group, err := sarama.NewConsumerGroup([]string{o["bootstrap"]}, o["group"], settings)
	if err != nil {
		kit.Say("error", nil, err)
		kit.Say("close_end", nil, nil)
		return
	}
	go func() {
		for err := range group.Errors() {
			kit.Say("error", nil, err)
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	topics := strings.Split(o["topics"], ",")
	go kit.Listen(func(verb, rest string) {
		switch verb {
		case "close":
			cancel()
		case "pause":
			group.PauseAll()
		case "resume":
			group.ResumeAll()
		case "subscribe", "unsubscribe", "commit":
			kit.Say("error", nil, errors.New("unsupported: "+verb+" "+rest))
		}
	})
	for ctx.Err() == nil {
		if err := group.Consume(ctx, topics, handler{o}); err != nil && ctx.Err() == nil {
			kit.Say("error", nil, err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	if err := group.Close(); err != nil {
		kit.Say("error", nil, err)
	}
	kit.Say("close_end", nil, nil)
}
