import { h, oncePerFrame, refill, s, toClock } from './dom.js'
import { shortId } from './actor-list.js'
import {
  commitsOfJournal,
  commitsOfSteps,
  mergeCommits,
  recentSubjects,
  stepsAbout,
} from './sequences.js'
import { splitKey } from './store.js'

/** Who sent what to whom: lanes of actors, arrows of events, a band for each commit. */

/** @typedef {import('./sequences.js').Commit} Commit */

const MAX_LANE_WIDTH = 168
const MIN_LANE_WIDTH = 104
const LEFT = 132
const CHAR_WIDTH = 6.8
const HEAD = 46
const ROW = 30
const BAND_TOP = 20

export class SequenceView {
  /** What is shown: empty for the last commands of the feed. */
  #subject = ''
  /** @type {Commit[]} */
  #stored = []
  #choice = h('select', {
    'aria-label': 'Call, payment or bounty',
    onchange: () => this.open(this.#choice.value),
  })
  #input = h('input', {
    type: 'search',
    placeholder: 'id of a call, payment or bounty',
    'aria-label': 'Id of a call, payment or bounty',
    spellcheck: 'false',
    onchange: () => this.open(this.#input.value.trim()),
  })
  #note = h('span', { class: 'note' })
  #canvas = h('div', { class: 'lanes' })
  element = h(
    'section',
    { class: 'sequence', hidden: true },
    h('div', { class: 'sequence-bar' }, this.#choice, this.#input, this.#note),
    this.#canvas,
  )
  draw = oncePerFrame(() => this.#draw())

  /**
   * @param {import('./store.js').Store} store
   * @param {() => string | null} followedAgent
   * @param {(key: string) => void} onSelect
   */
  constructor(store, followedAgent, onSelect) {
    this.store = store
    this.followedAgent = followedAgent
    this.onSelect = onSelect
  }

  /** Shows one call, payment or bounty; the journal has what the feed did not see. @param {string} id */
  async open(id) {
    this.#subject = id
    this.#stored = []
    this.#input.value = id
    this.draw()
    if (id === '') return
    const commits = await commitsOfJournal(id, this.followedAgent()).catch(() => [])
    if (this.#subject !== id) return
    this.#stored = commits
    this.draw()
  }

  #draw() {
    if (this.element.hidden) return
    this.#drawChoice()
    const { steps } = this.store
    const live = commitsOfSteps(
      this.#subject === '' ? steps.slice(0, 40) : stepsAbout(steps, this.#subject),
    )
    const commits = mergeCommits(live, this.#stored)
    const past = commits.length - live.length
    refill(
      this.#note,
      commits.length === 0
        ? ''
        : `${commits.length} ${commits.length === 1 ? 'commit' : 'commits'}`,
      past === 0 ? '' : `, ${past} from the journal: what they changed`,
    )
    refill(
      this.#canvas,
      commits.length === 0
        ? h(
            'p',
            { class: 'empty' },
            'No commit yet. Choose a call, payment or bounty, or wait for the next one.',
          )
        : this.#drawLanes(commits),
    )
  }

  #drawChoice() {
    const subjects = recentSubjects(this.store.steps).slice(0, 50)
    const options = [
      h('option', { value: '' }, 'the last events'),
      ...subjects.map(({ id, text }) => h('option', { value: id }, text)),
    ]
    if (document.activeElement !== this.#choice) refill(this.#choice, ...options)
    this.#choice.value = subjects.some(({ id }) => id === this.#subject) ? this.#subject : ''
  }

  /** @param {Commit[]} commits */
  #drawLanes(commits) {
    const messages = commits.flatMap((commit) => commit.messages)
    const lanes = [...new Set(messages.flatMap(({ from, to }) => [from, to]))].toSorted(
      (one, other) => Number(one.includes(':')) - Number(other.includes(':')),
    )
    const room = (this.#canvas.clientWidth - LEFT - 14) / lanes.length
    const laneWidth = Math.max(MIN_LANE_WIDTH, Math.min(MAX_LANE_WIDTH, room))
    const x = (/** @type {string} */ lane) => LEFT + laneWidth * lanes.indexOf(lane) + laneWidth / 2
    const height =
      HEAD + commits.reduce((sum, commit) => sum + BAND_TOP + commit.messages.length * ROW, 0) + 12
    const width = LEFT + laneWidth * lanes.length
    const drawing = s('svg', {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: 'img',
      'aria-label': 'Sequence of commits',
    })
    let y = HEAD
    commits.forEach((commit, at) => {
      const tall = BAND_TOP + commit.messages.length * ROW
      drawing.append(...this.#drawBand(commit, y, tall, width, at % 2 === 1))
      y += tall
    })
    const maxChars = Math.floor(laneWidth / CHAR_WIDTH)
    for (const lane of lanes) drawing.append(this.#drawLane(lane, x(lane), height, maxChars))
    y = HEAD
    for (const commit of commits) {
      commit.messages.forEach((message, at) =>
        drawing.append(
          drawMessage(message, x(message.from), x(message.to), y + BAND_TOP + at * ROW + 12),
        ),
      )
      y += BAND_TOP + commit.messages.length * ROW
    }
    return drawing
  }

  /** @param {Commit} commit @param {number} y @param {number} tall @param {number} width @param {boolean} odd */
  #drawBand({ command, at, version }, y, tall, width, odd) {
    return [
      s('rect', { class: odd ? 'band odd' : 'band', x: 0, y, width, height: tall }),
      s('line', { class: 'commit-line', x1: 0, x2: width, y1: y + tall, y2: y + tall }),
      s('text', { class: 'commit-name', x: 12, y: y + 20 }, command),
      s('text', { class: 'commit-time', x: 12, y: y + 36 }, `${toClock(at)} · v${version}`),
    ]
  }

  /** @param {string} lane @param {number} x @param {number} height @param {number} maxChars */
  #drawLane(lane, x, height, maxChars) {
    const isActor = lane.includes(':')
    const { kind, id } = isActor ? splitKey(lane) : { kind: lane, id: '' }
    const name = this.store.actors.get(lane)?.name
    const second = name === undefined || name === '' ? shortId(id) : name
    const group = s(
      'g',
      { class: isActor ? 'lane actor-lane' : 'lane' },
      s('line', { class: 'lane-line', x1: x, x2: x, y1: HEAD - 4, y2: height }),
      s('text', { class: 'lane-kind', x, y: 18 }, kind),
      s(
        'text',
        { class: 'lane-name', x, y: 34 },
        second.length > maxChars ? `${second.slice(0, maxChars - 1)}…` : second,
      ),
      s('title', {}, lane),
    )
    if (isActor) group.addEventListener('click', () => this.onSelect(lane))
    return group
  }
}

/** @param {import('./sequences.js').Message} message @param {number} from @param {number} to @param {number} y */
function drawMessage({ text, refused }, from, to, y) {
  const shown = refused === null ? text : `${text} ✕ ${refused}`
  const group = s('g', { class: refused === null ? 'message' : 'message refused' })
  if (from === to) {
    group.append(
      s('path', { class: 'arrow', d: `M${to} ${y - 4}h22q6 0 6 6t-6 6h-16` }),
      s('path', { class: 'arrow-head', d: `M${to + 2} ${y + 8}l7 -3.5v7Z` }),
      s('text', { x: to + 34, y: y + 6, 'text-anchor': 'start' }, shown),
    )
    return group
  }
  const sign = to > from ? 1 : -1
  group.append(
    s('path', { class: 'arrow', d: `M${from} ${y}H${to - sign * 6}` }),
    s('path', { class: 'arrow-head', d: `M${to} ${y}l${-sign * 7} -3.5v7Z` }),
    s('text', { x: (from + to) / 2, y: y - 4, 'text-anchor': 'middle' }, shown),
  )
  return group
}
