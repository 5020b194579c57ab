import type { MemoryPackContentEntry } from './memory-pack-entry.ts'

/** How a language model agent keeps its attention on the task. */
export const FOCUS_STACK_ATTENTION_PACK_ENTRIES: readonly MemoryPackContentEntry[] = [
  {
    content:
      'Models use the beginning and the end of a long context better than its middle. Put the task and its constraints first, repeat the question after the material, place the most relevant passages at both ends, and drop what is not needed: fewer, better passages beat more of them. When something must not be missed, ask for a quotation of it before the conclusion.',
    type: 'skill',
    tags: ['context', 'retrieval', 'attention'],
    importance: 0.9,
    source:
      'N. F. Liu et al., Lost in the Middle: How Language Models Use Long Contexts (TACL 2024), https://arxiv.org/abs/2307.03172',
  },
  {
    content:
      'Interleave thinking and acting: state what is known, what is missing, and the one action that would tell; act; read the observation; then decide anew. A plan made before the first observation is a guess. Bound the loop by steps and by cost, and end it when an action would no longer change the answer.',
    type: 'skill',
    tags: ['react', 'planning', 'tools'],
    importance: 0.85,
    source: 'S. Yao et al., ReAct (ICLR 2023), https://arxiv.org/abs/2210.03629',
  },
  {
    content:
      'Where a question has one right answer, sample several independent solutions at a temperature above zero and take the majority; agreement is also a rough measure of confidence. Five to ten samples bring most of the gain. It does not help where all samples share the same wrong premise: check the premise with a tool first.',
    type: 'skill',
    tags: ['self-consistency', 'reasoning', 'confidence'],
    importance: 0.8,
    source: 'X. Wang et al., Self-Consistency (ICLR 2023), https://arxiv.org/abs/2203.11171',
  },
  {
    content:
      'After a failure write one sentence: what was tried, what was observed, what will be done differently; and read such sentences before the next attempt. Use a signal from outside (a test, a balance, a status code) to decide that it failed. A model that only rereads its own reasoning, without new information, makes right answers wrong about as readily as the reverse.',
    type: 'skill',
    tags: ['reflection', 'memory', 'self-correction'],
    importance: 0.9,
    source:
      'N. Shinn et al., Reflexion (NeurIPS 2023), https://arxiv.org/abs/2303.11366 ; J. Huang et al., Large Language Models Cannot Self-Correct Reasoning Yet (ICLR 2024), https://arxiv.org/abs/2310.01798',
  },
  {
    content:
      "Little's law: the average number of things in progress equals arrivals a unit of time multiplied by the average time each takes (L = lambda * W), whatever the distribution. To finish sooner at the same throughput, begin fewer at once. With 12 tasks open and 4 finished an hour, a new one is done after three hours on average; with 4 open, after one.",
    type: 'fact',
    tags: ['work-in-progress', 'queues', 'throughput'],
    importance: 0.75,
    source:
      'J. D. C. Little, A Proof for the Queuing Formula L = lambda W, Operations Research 9 (1961)',
  },
  {
    content:
      'Before answering from memory, turn each claim that matters into a question of its own, answer those questions without looking at the draft, and rewrite the draft by the answers. Numbers, names, dates and quotations come first, for they are made up most often. What cannot be verified is said to be unverified, with what would verify it.',
    type: 'skill',
    tags: ['verification', 'hallucination', 'facts'],
    importance: 0.9,
    source:
      'S. Dhuliawala et al., Chain-of-Verification Reduces Hallucination in Large Language Models (2023), https://arxiv.org/abs/2309.11495',
  },
]
