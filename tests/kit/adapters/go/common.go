// Package kit is what the adapters in Go share: options, what they print, and the lines that they are told.
package kit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options are as `fsm kit run` gives them.
type Options map[string]string

// Read gives the options of the command line.
func Read() Options {
	found := Options{}
	for i := 1; i+1 < len(os.Args); i += 2 {
		found[strings.TrimPrefix(os.Args[i], "--")] = os.Args[i+1]
	}
	return found
}

// Milliseconds gives a time, or otherwise this one.
func (o Options) Milliseconds(name string, otherwise int) time.Duration {
	if number, err := strconv.Atoi(o[name]); err == nil {
		otherwise = number
	}
	return time.Duration(otherwise) * time.Millisecond
}

var mutex sync.Mutex

// Say prints one line.
func Say(event string, partitions map[string][]int32, problem error) {
	said := map[string]any{"ev": event}
	if partitions != nil {
		pairs := [][]any{}
		for topic, numbers := range partitions {
			for _, number := range numbers {
				pairs = append(pairs, []any{topic, number})
			}
		}
		sort.Slice(pairs, func(i, j int) bool { return fmt.Sprint(pairs[i]) < fmt.Sprint(pairs[j]) })
		said["partitions"] = pairs
	}
	if problem != nil {
		said["error"] = problem.Error()
	}
	line, _ := json.Marshal(said)
	mutex.Lock()
	defer mutex.Unlock()
	fmt.Println(string(line))
}

// Listen calls obey with each line of stdin as its words; its end is close.
func Listen(obey func(verb, rest string)) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		verb, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		obey(verb, rest)
	}
	obey("close", "")
}
