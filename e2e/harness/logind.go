package harness

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

// MindShutdowns makes kubelet, from its next start on, give pods time to end when the node is about to shut down, a
// part of it to critical pods after the others.
func (w *Worker) MindShutdowns(grace, critical time.Duration) (err error) {
	file := filepath.Join(w.dir, "kubelet.json")
	config := map[string]any{}
	if err = json.Unmarshal(w.kubeletConfig(), &config); err != nil {
		return err
	}
	config["shutdownGracePeriod"], config["shutdownGracePeriodCriticalPods"] = grace.String(), critical.String()
	if w.logind, err = startLogind(w.Node.dir); err != nil {
		return err
	}
	return os.WriteFile(file, asJSON(config), 0o644)
}

// BeginShutdown announces a shutdown to a kubelet that minds them. PowerOff completes it.
func (w *Worker) BeginShutdown(ctx context.Context) error {
	return poll(ctx, func(context.Context) (bool, error) {
		err := w.logind.shutdown()
		if errors.Is(err, errNobodyAsked) {
			return false, nil
		}
		return true, err
	})
}

var errNobodyAsked = errors.New("no kubelet asked to be told of a shutdown")

// logind plays systemd's logind for a kubelet, on a bus of their own: kubelet subscribes to shutdowns, and asks to
// delay them.
type logind struct {
	socket net.Listener

	mu      sync.Mutex
	kubelet net.Conn // that subscribed
}

const login1 = "org.freedesktop.login1.Manager"

func startLogind(dir string) (*logind, error) {
	socket, err := net.Listen("unix", filepath.Join(dir, "bus"))
	if err != nil {
		return nil, err
	}
	l := &logind{socket: socket}
	go func() {
		for {
			conn, err := socket.Accept()
			if err != nil {
				return
			}
			go l.serve(conn)
		}
	}()
	return l, nil
}

// environment is how a kubelet finds the bus.
func (l *logind) environment() string {
	return "DBUS_SYSTEM_BUS_ADDRESS=unix:path=" + l.socket.Addr().String()
}

func (l *logind) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for line := ""; line != "BEGIN"; {
		text, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.Trim(text, "\x00\r\n")
		answer := map[string]string{"AUTH": "REJECTED EXTERNAL", "AUTH EXTERNAL": "OK 00", "NEGOTIATE_UNIX_FD": "ERROR"}[line]
		if answer != "" {
			fmt.Fprintf(conn, "%s\r\n", answer)
		}
	}
	for {
		call, err := dbus.DecodeMessage(r)
		if err != nil {
			return
		}
		l.answer(conn, call)
	}
}

func (l *logind) answer(conn net.Conn, call *dbus.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var result []any
	switch member, _ := call.Headers[dbus.FieldMember].Value().(string); member {
	case "Hello":
		result = []any{":1.1"}
	case "Get": // how long it waits at most, in microseconds
		result = []any{dbus.MakeVariant(uint64(3600e6))}
	case "Inhibit": // a file that kubelet closes when it is done: none
		result = []any{uint32(1 << 30)}
	case "AddMatch":
		l.kubelet = conn
	}
	send(conn, dbus.TypeMethodReply, map[dbus.HeaderField]any{dbus.FieldReplySerial: call.Serial()}, result...)
}

// shutdown announces that the node is about to shut down.
func (l *logind) shutdown() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kubelet == nil {
		return errNobodyAsked
	}
	return send(l.kubelet, dbus.TypeSignal, map[dbus.HeaderField]any{
		dbus.FieldSender: ":1.0", dbus.FieldPath: dbus.ObjectPath("/org/freedesktop/login1"),
		dbus.FieldInterface: login1, dbus.FieldMember: "PrepareForShutdown",
	}, true)
}

func send(conn net.Conn, kind dbus.Type, headers map[dbus.HeaderField]any, body ...any) error {
	m := &dbus.Message{Type: kind, Headers: map[dbus.HeaderField]dbus.Variant{}, Body: body}
	for field, value := range headers {
		m.Headers[field] = dbus.MakeVariant(value)
	}
	if len(body) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	return m.EncodeTo(conn, binary.LittleEndian)
}
