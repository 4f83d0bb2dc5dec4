package harness

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// shiftClock sets the wall clock of one running process ahead, by whole seconds. A Go program reads the time from the
// vDSO, a page of code that the kernel maps into each process. shiftClock replaces its clock_gettime, in the memory of
// the process, by the system call and an addition. The monotonic clock stays correct.
func shiftClock(pid int, by time.Duration) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	defer syscall.Kill(pid, syscall.SIGCONT)
	if err := waitStopped(pid); err != nil {
		return err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	from, to, err := findVDSO(pid)
	if err != nil {
		return err
	}
	image := make([]byte, to-from)
	if _, err := memory.ReadAt(image, from); err != nil {
		return err
	}
	offset, err := clockGettime(image)
	if err != nil {
		return err
	}
	_, err = memory.WriteAt(shiftedClockGettime(by), from+offset)
	return err
}

// shiftedClockGettime is machine code for clock_gettime(clock, *timespec).
func shiftedClockGettime(by time.Duration) []byte {
	code := []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
		0x75, 0x07, // jne to ret
		0x48, 0x81, 0x06, // add qword [rsi], seconds
	}
	code = binary.LittleEndian.AppendUint32(code, uint32(int32(by/time.Second)))
	return append(code, 0xc3) // ret
}

func waitStopped(pid int) error {
	for range 1000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		if bytes.Contains(stat, []byte(") T ")) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("process %d does not stop", pid)
}

func findVDSO(pid int) (from, to int64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if place, _, _ := strings.Cut(line, " "); strings.HasSuffix(line, "[vdso]\n") {
			first, last, _ := strings.Cut(place, "-")
			from, err = strconv.ParseInt(first, 16, 64)
			if err == nil {
				to, err = strconv.ParseInt(last, 16, 64)
			}
			return from, to, err
		}
	}
	return 0, 0, errors.New("the process has no vDSO")
}

// clockGettime is the offset of the function in an image of the vDSO.
func clockGettime(image []byte) (offset int64, err error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			return int64(s.Value), nil
		}
	}
	return 0, errors.New("the vDSO has no clock_gettime")
}
