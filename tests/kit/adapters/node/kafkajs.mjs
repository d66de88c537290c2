// The adapter of KafkaJS, which knows classic groups only.
import kafkajs from 'kafkajs'
import { listen, number, options, say } from './common.mjs'

if (options.protocol === 'consumer') {
  say('error', { error: 'KafkaJS has no consumer groups' })
  say('close_end')
  process.exit(0)
}
const kafka = new kafkajs.Kafka({ clientId: 'kafkajs', brokers: [options.bootstrap], logLevel: kafkajs.logLevel.NOTHING })
const consumer = kafka.consumer({
  groupId: options.group,
  sessionTimeout: number('session-ms', 45000),
  heartbeatInterval: 1000,
  rebalanceTimeout: number('max-poll-ms', 60000),
  metadataMaxAge: 3000
})
consumer.on(consumer.events.CRASH, event => say('error', { error: String(event.payload.error) }))

let closing = false
listen(async line => {
  if (line === 'close' && !closing) {
    closing = true
    await consumer.disconnect()
    say('close_end')
    process.exit(0)
  } else if (line === 'pause') consumer.pause(options.topics.split(',').map(topic => ({ topic })))
  else if (line === 'resume') consumer.resume(options.topics.split(',').map(topic => ({ topic })))
  else say('error', { error: `unsupported: ${line}` })
})
try {
  await consumer.connect()
  await consumer.subscribe({ topics: options.topics.split(','), fromBeginning: true })
  await consumer.run({ autoCommitInterval: 1000, eachMessage: async () => {} })
} catch (problem) {
  say('error', { error: String(problem) })
}
