// Command workload is what pods of tests run: it answers with its name at port 80 of any of its addresses.
//
// "workload" answers until it gets a signal to end; "workload -stubborn" until it is killed; "workload -fill <file>"
// has four mebibytes on its disk. "workload <address>" asks, and prints the name.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	stubborn := flag.Bool("stubborn", false, "do not end when told to")
	fill := flag.String("fill", "", "write much to a `file`")
	flag.Parse()
	do := func() error {
		if err := write(*fill); err != nil {
			return err
		}
		return answer(*stubborn)
	}
	if flag.NArg() > 0 {
		do = func() error { return ask(flag.Arg(0)) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(1)
	}
}

func write(file string) error {
	if file == "" {
		return nil
	}
	return os.WriteFile(file, make([]byte, 4<<20), 0o600)
}

func answer(stubborn bool) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", ":80")
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for range signals {
			if !stubborn {
				l.Close()
			}
		}
	}()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Fprint(conn, name)
		conn.Close()
	}
}

// ask waits for who has just started, and does not listen yet.
func ask(address string) error {
	end := time.Now().Add(20 * time.Second)
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(address, "80"), time.Until(end))
	for errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(end) {
		time.Sleep(100 * time.Millisecond)
		conn, err = net.DialTimeout("tcp", net.JoinHostPort(address, "80"), time.Until(end))
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, err = io.Copy(os.Stdout, conn)
	return err
}
