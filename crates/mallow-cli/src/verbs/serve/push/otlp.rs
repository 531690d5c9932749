// SPDX-License-Identifier: MIT
//! A reading as OTLP's messages: one resource for each process, by OpenTelemetry's conventions, and
//! one for the server itself. The metrics are those of `/metrics`, from the same table.

use std::io::Write;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
    metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

use super::Rejected;
use super::client::{Body, Client, Connection, Failure};
use crate::verbs::serve::collect::{Snapshot, Target, host};
use crate::verbs::serve::metrics::{self, FAMILIES, Family, Sample};

/// Processes in a message. Collectors take 20 MiB unless told otherwise; these are some 400 KiB.
const MOST_RESOURCES: usize = 100;

/// Where a collector takes them.
pub const PATH: &str = "/v1/metrics";

pub struct Metrics;

impl Metrics {
    /// In as many messages as it takes.
    pub async fn push(
        &self,
        client: &Client,
        connection: &Connection,
        snapshot: Arc<Snapshot>,
    ) -> Result<Rejected, Failure> {
        // Much to compress must not keep the server from answering.
        let bodies = tokio::task::spawn_blocking(move || bodies(&snapshot)).await;
        let bodies = bodies.map_err(Failure::here)?.map_err(Failure::here)?;
        let mut rejected = None;
        for bytes in bodies {
            let body = Body::gzip("application/x-protobuf", bytes);
            let answer = client.post(connection, body).await?;
            rejected = rejected.or(rejected_of(&answer, &client.url));
        }
        Ok(rejected)
    }
}

/// An answer that is none of OTLP's says nothing.
fn rejected_of(answer: &[u8], url: &str) -> Rejected {
    let partial = ExportMetricsServiceResponse::decode(answer).ok()?.partial_success?;
    if partial.rejected_data_points == 0 && partial.error_message.is_empty() {
        return None;
    }
    let (many, why) = (partial.rejected_data_points, partial.error_message);
    Some(format!("{url} did not take {many} of the values: {why}."))
}

/// Compressed, each a message of its own.
fn bodies(snapshot: &Snapshot) -> std::io::Result<Vec<Vec<u8>>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanoseconds = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    let mut resources = resources(snapshot, &host(), nanoseconds);
    let mut bodies = Vec::new();
    while !resources.is_empty() {
        let rest = resources.split_off(resources.len().min(MOST_RESOURCES));
        let request = ExportMetricsServiceRequest { resource_metrics: resources };
        let mut body = GzEncoder::new(Vec::new(), Compression::fast());
        body.write_all(&request.encode_to_vec())?;
        bodies.push(body.finish()?);
        resources = rest;
    }
    Ok(bodies)
}

fn resources(snapshot: &Snapshot, host: &str, now: u64) -> Vec<ResourceMetrics> {
    let mut of_targets = vec![Vec::<Metric>::new(); snapshot.targets.len()];
    let mut own = Vec::new();
    for family in &FAMILIES {
        family.samples(snapshot, &mut |sample| {
            let metrics = match sample.target {
                Some(index) => &mut of_targets[index],
                None => &mut own,
            };
            let point = point(family, sample, snapshot, now);
            // All samples of a family come together.
            match metrics.last_mut().filter(|last| last.name == family.dotted_name()) {
                Some(last) => points(last).extend([point]),
                None => metrics.push(metric(family, point)),
            }
        });
    }
    let targets = snapshot.targets.iter().zip(of_targets);
    let targets = targets.map(|(target, metrics)| resource(of_process(target, host), metrics));
    std::iter::once(resource(of_server(host), own)).chain(targets).collect()
}

fn resource(attributes: Vec<KeyValue>, metrics: Vec<Metric>) -> ResourceMetrics {
    let scope = InstrumentationScope {
        name: "mallow".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    };
    let metrics = ScopeMetrics { scope: Some(scope), metrics, schema_url: String::new() };
    ResourceMetrics {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_metrics: vec![metrics],
        schema_url: String::new(),
    }
}

fn of_process(target: &Target, host: &str) -> Vec<KeyValue> {
    let mut attributes = identity(target.executable(), target.pid, host);
    attributes[0] = text("service.name", target.service());
    let path = target.exe.as_ref().map(|path| path.to_string_lossy());
    attributes.extend(path.map(|path| text("process.executable.path", &path)));
    attributes
}

fn of_server(host: &str) -> Vec<KeyValue> {
    let mut attributes = identity("mallow", std::process::id(), host);
    attributes[0] = text("service.name", "mallow-serve");
    attributes.push(text("service.version", env!("CARGO_PKG_VERSION")));
    attributes
}

/// Name and instance of a service are what Prometheus calls job and instance: together they tell
/// one process from all others.
fn identity(executable: &str, pid: u32, host: &str) -> Vec<KeyValue> {
    vec![
        text("service.name", executable),
        text("service.instance.id", &format!("{host}:{pid}")),
        number("process.pid", i64::from(pid)),
        text("process.executable.name", executable),
        text("host.name", host),
        text("os.type", "linux"),
    ]
}

fn metric(family: &Family, point: NumberDataPoint) -> Metric {
    let data_points = vec![point];
    let data = if family.is_counter() {
        let aggregation_temporality = AggregationTemporality::Cumulative.into();
        metric::Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic: true })
    } else {
        metric::Data::Gauge(Gauge { data_points })
    };
    Metric {
        name: family.dotted_name(),
        description: format!("{}.", family.help()),
        unit: family.unit_of_ucum().into(),
        metadata: Vec::new(),
        data: Some(data),
    }
}

fn points(metric: &mut Metric) -> &mut Vec<NumberDataPoint> {
    match &mut metric.data {
        Some(metric::Data::Sum(sum)) => &mut sum.data_points,
        Some(metric::Data::Gauge(gauge)) => &mut gauge.data_points,
        _ => unreachable!("metric() makes these two alone"),
    }
}

/// With the labels that `/metrics` has, so that the same queries work on both.
fn point(family: &Family, sample: Sample, snapshot: &Snapshot, now: u64) -> NumberDataPoint {
    let target = sample.target.map(|index| &snapshot.targets[index]);
    let labels = target.map(metrics::labels_of).into_iter().flatten();
    let labels = labels.chain(sample.labels.iter().map(|(name, value)| (*name, value.to_string())));
    let started = target.filter(|_| family.is_counter());
    NumberDataPoint {
        attributes: labels.map(|(name, value)| text(name, &value)).collect(),
        start_time_unix_nano: started.map_or(0, |target| {
            (metrics::start_time(target, snapshot) * 1000.0) as u64 * 1_000_000
        }),
        time_unix_nano: now,
        value: Some(number_data_point::Value::AsDouble(sample.value)),
        ..NumberDataPoint::default()
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

fn number(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.into(), value, ..KeyValue::default() }
}
