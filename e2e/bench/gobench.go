package bench

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// GoBenchFile is what `go test -bench` printed, beside the programs. benchstat reads
// it, too.
const GoBenchFile = "gobench.txt"

// goBench writes the medians of Go's benchmarks.
func goBench(_ *Book, programs string) string {
	f, err := os.Open(filepath.Join(programs, GoBenchFile))
	if err != nil {
		return ""
	}
	defer f.Close()
	figures := map[string]map[string][]float64{} // by name and unit
	var order []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if at := strings.LastIndexByte(name, '-'); at > 0 { // the number of cores
			name = name[:at]
		}
		if figures[name] == nil {
			figures[name] = map[string][]float64{}
			order = append(order, name)
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				figures[name][fields[i+1]] = append(figures[name][fields[i+1]], v)
			}
		}
	}
	s := head("benchmark", "time", "allocated", "allocations", "more")
	for _, name := range order {
		of := figures[name]
		more := ""
		for _, unit := range slices.Sorted(maps.Keys(of)) {
			if unit != "ns/op" && unit != "B/op" && unit != "allocs/op" {
				more = strings.TrimPrefix(more+fmt.Sprintf(", %s %s", short(middle(of[unit])), unit), ", ")
			}
		}
		s += row(name, duration(middle(of["ns/op"])), fmt.Sprintf("%s MB", short(middle(of["B/op"])/1e6)), grouped(middle(of["allocs/op"])), more)
	}
	return s
}

func duration(ns float64) string {
	switch {
	case ns >= 1e9:
		return short(ns/1e9) + " s"
	case ns >= 1e6:
		return short(ns/1e6) + " ms"
	case ns >= 1e3:
		return short(ns/1e3) + " µs"
	default:
		return short(ns) + " ns"
	}
}
