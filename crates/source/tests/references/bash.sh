source lib/log.sh
. ./env.sh
ship() {
    log_info "shipping $1"
    count=$(wc -l < "$1")
}
ship orders.txt
