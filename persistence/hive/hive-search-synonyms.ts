/** Synonym groups and question words of the Hive search. */

/**
 * Texts with the same meaning: abbreviations and trade terms of chains, markets and code, irregular
 * word forms and plain synonyms. Each line is a group; a search for one finds the others with a
 * lower weight. A group belongs here if a dictionary or glossary of the field has it, not because
 * one search missed.
 */
const SYNONYM_LINES = `
transaction, tx, txn
address, addr
block number, block height
seed phrase, recovery phrase, mnemonic
externally owned account, EOA
account abstraction, ERC-4337
layer 1, L1, mainnet
layer 2, L2, rollup
zero knowledge, ZK
proof of stake, PoS
proof of work, PoW
final, finality, irreversible
reorg, reorganise, reorganize
mempool, transaction pool
maximal extractable value, MEV
front run, frontrun
Ethereum name service, ENS
remote procedure call, RPC
cross chain, crosschain, interchain, multichain
withdraw, take out, cash out
send, transfer
allowance, approval
non fungible token, NFT, collectible
decentralised autonomous organisation, decentralized autonomous organization, DAO
decentralised application, decentralized application, dApp
decentralised finance, decentralized finance, DeFi
decentralised exchange, decentralized exchange, DEX
centralised exchange, centralized exchange, CEX
automated market maker, AMM
liquidity, liq
liquidity provider, LP
total value locked, TVL
yield, interest, APY, APR, annual percentage rate, annual percentage yield
impermanent loss, divergence loss, IL
loan to value, LTV
loan, borrow, lend, lent, debt
liquidation, margin call
dollar, USD
perpetual, perp
profit and loss, PnL
return on investment, ROI
all time high, ATH
assets under management, AUM
stop loss, SL
take profit, TP
slippage, price impact
central limit order book, CLOB
over the counter, OTC
time weighted average price, TWAP
volume weighted average price, VWAP
relative strength index, RSI
average true range, ATR
volatility, vol
leverage, margin
overfitting, curve fitting
consumer price index, CPI, inflation
federal reserve, Fed
know your customer, KYC
multisig, multi signature
cold wallet, hardware wallet, cold storage
rug pull, exit scam
scam, fraud
hack, exploit, attack
theft, steal, stole, stolen
database, db
PostgreSQL, Postgres
JavaScript, JS
TypeScript, TS
Kubernetes, k8s
repository, repo
pull request, merge request, PR
continuous integration, CI
configuration, config, settings
environment, env
variable, var
parameter, param, argument, arg
function, func, fn
authentication, auth
credential, password, login
regular expression, regex, regexp
out of memory, OOM
memory, RAM
processor, CPU
denial of service, DoS
rate limit, throttle
timeout, deadline
retry, try again
error, exception
fail, failure
bug, defect
outage, downtime
latency, delay, lag
transactions per second, TPS
library, lib, package, dependency
documentation, docs, manual
specification, spec
deploy, release, rollout
virtual machine, VM
operating system, OS
user interface, UI
e-mail, email, mail
spam, junk mail
large language model, language model, LLM
artificial intelligence, AI
machine learning, ML
retrieval augmented generation, RAG
embedding, vector
nearest neighbour, nearest neighbor, ANN, kNN
mean reciprocal rank, MRR
reciprocal rank fusion, RRF
full text search, FTS
scrape, crawl
URL, link
time to live, TTL
server sent events, SSE
JSON web token, JWT
model context protocol, MCP
agent commerce protocol, ACP
service level agreement, SLA
key performance indicator, KPI
duplicate, copy, clone
image, picture, photo
refund, money back, reimburse
fee, cost, charge
buy, bought, purchase
sell, sold, sale
seller, vendor
week, seven days
second, sec
minute, min
hour, hr
millisecond, ms
one, 1
two, 2
three, 3
four, 4
five, 5
six, 6
seven, 7
eight, 8
nine, 9
ten, 10
twelve, 12
twenty, 20
thirty, 30
forty, 40
fifty, 50
sixty, 60
ninety, 90
hundred, 100
thousand, 1000
cheap, cheaper, cheapest, inexpensive
expensive, costly
fast, faster, fastest, quick, rapid
slow, slower, slowest
high, higher, highest
low, lower, lowest
large, larger, largest, big, bigger, biggest
small, smaller, smallest, tiny
old, older, oldest
safe, safer, safest, secure
danger, risk, hazard
long, longer, longest, length
short, shorter, shortest
begin, began, begun, start
stop, halt
end, finish
wrong, incorrect
correct, right
allow, permit
forbid, forbidden, ban, prohibit
need, require
break, broke, broken
build, built
choose, chose, chosen
draw, drew, drawn
fall, fell, fallen
find, found
freeze, froze, frozen
grow, grew, grown, growth
hide, hid, hidden
hold, held
keep, kept
know, knew, known
lead, led
lose, lost, loss
pay, paid, payment
rise, rose, risen
run, ran
speak, spoke, spoken
spend, spent
write, wrote, written
index, indices
analysis, analyses
person, people
child, children
`

/** Question words without content: they have a low weight. */
const QUESTION_WORD_LINES = `
able actually also always another any anybody anyone anything anyway around ask asked back become
becomes best better bring came can come comes could does done each else enough ever every everybody
everything exactly example far few first get gets getting give given gives go goes going gone good got
happen happened happens help instead just keep keeps kind know known last least less let like little
look looking lot made make makes making many may maybe mean means might more most much must need needed
needs never new next nobody nothing now often old one ones only other others please possible put quite
rather really right said same say says see seem seems seen several shall should show since someone
something still such sure take taken takes tell than thing things think thought though together told too
toward tried try trying two unless upon use used useful uses using usually various very want wants way
ways well went whether while whole will without wonder work works would yes yet
`

const listOf = (text: string, between: RegExp) =>
  text
    .split(between)
    .map((one) => one.trim())
    .filter((one) => one !== '')

/** Spellings of similar meaning, in groups. */
export const SYNONYM_GROUPS: readonly (readonly string[])[] = listOf(SYNONYM_LINES, /\n/).map(
  (line) => listOf(line, /,/),
)

export const SEARCH_STOP_WORDS: readonly string[] = listOf(QUESTION_WORD_LINES, /\s/)
