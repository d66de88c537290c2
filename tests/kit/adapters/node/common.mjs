// What the adapters for Node.js share: options, what they print, and the lines that they are told.
import readline from 'node:readline'

export const options = {}
for (let i = 2; i < process.argv.length; i += 2) options[process.argv[i].slice(2)] = process.argv[i + 1]

export const number = (name, otherwise) => Number(options[name] ?? otherwise)

export const say = (ev, more = {}) => process.stdout.write(JSON.stringify({ ev, ...more }) + '\n')

export const listen = obey => {
  const lines = readline.createInterface({ input: process.stdin })
  lines.on('line', line => obey(line.trim()))
  lines.on('close', () => obey('close'))
}
