// Go's own mutex on etcd, as a program: waits for the lock, says so, and holds it until its input ends.
//
//	mutex ENDPOINTS PREFIX TTL              one lock; prints "locked REVISION", and "released"
//	mutex ENDPOINTS PREFIX TTL COUNT FILE   so many locks, one after the other, and under each a file that nobody else may have made
package main

import (
	"context"
	"fmt"
	"io"
	"io/ioutil"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ttl, err := strconv.Atoi(os.Args[3])
	check(err)
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   strings.Split(os.Args[1], ","),
		DialTimeout: 5 * time.Second,
	})
	check(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	check(err)
	mutex := concurrency.NewMutex(session, os.Args[2])
	if len(os.Args) > 4 {
		cycle(mutex, os.Args[4], os.Args[5])
	} else {
		hold(client, mutex)
	}
	check(session.Close())
}

func hold(client *clientv3.Client, mutex *concurrency.Mutex) {
	check(mutex.Lock(context.Background()))
	own, err := client.Get(context.Background(), mutex.Key())
	check(err)
	if len(own.Kvs) != 1 {
		log.Fatal("the own key has gone")
	}
	fmt.Println("locked", own.Kvs[0].CreateRevision)
	_, err = io.Copy(ioutil.Discard, os.Stdin)
	check(err)
	check(mutex.Unlock(context.Background()))
	fmt.Println("released")
}

func cycle(mutex *concurrency.Mutex, count, path string) {
	rounds, err := strconv.Atoi(count)
	check(err)
	for ; rounds > 0; rounds-- {
		check(mutex.Lock(context.Background()))
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
		check(err)
		check(file.Close())
		check(os.Remove(path))
		check(mutex.Unlock(context.Background()))
	}
	fmt.Println("done")
}
